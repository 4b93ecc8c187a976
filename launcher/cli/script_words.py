"""Guesses about a missing script, or about a command line without one.

Loaded only once an error is certain.
"""

from __future__ import annotations

import os
import re
import shlex

from ..common import executable
from ..common.errors import UsageError
from ..common.scripts import SCRIPTS, scripts_in
from .options import table
from .parser import key_of, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = "dsrun [options] SCRIPT [ARGS...]; see dsrun --help"

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
COMMANDS = {
    "help": "dsrun --help shows the options",
    "version": "dsrun --version prints the version",
    "run": "leave out run: dsrun [options] SCRIPT [ARGS...]",
    "launch": "leave out launch: dsrun [options] SCRIPT [ARGS...]",
    "-": "dsrun reads no script from standard input; name a file",
    **{verb: f"write dsrun-job {verb}" for verb in ("list", "top", "logs", "kill", "stacks")},
    **{tool: f"write dsrun-{tool}" for tool in ("job", "hold", "exec", "check", "topo", "elastic")},
}
"""Words that are commands, of dsrun or of other programs, and no scripts."""


def missing(taken: tuple[str, str], program: Sequence[str]) -> UsageError:
    """Return the error for a command line without a script.

    Args:
        taken: the last option whose value is a separate word, and that word.
        program: an empty word in place of the script, if any.
    """
    option, value = taken
    if program:
        return UsageError(f"no script (an empty argument; is a variable not set?): {USAGE}")
    if value.endswith(SCRIPTS) or (value and os.path.isfile(value) and not _reads(option)):
        return UsageError(f"no script: {value} was taken as the value of {option}")
    if option and table()[key_of(option)][1].separator in {"@", ","}:
        split = "if the shell split it at ; or &, put it in quotes"
        return UsageError(f"no script after {option} {value} ({split}): {USAGE}")
    return UsageError(f"no script: {USAGE}")


def _reads(option: str) -> bool:
    return table()[key_of(option)][1].file != ""


def unquoted(taken: tuple[str, str], program: Sequence[str], folder: str) -> str:
    """Return the option with its value in quotes, if it may include words before the script."""
    option, value = taken
    for at, word in enumerate(program):
        if at and os.path.isfile(os.path.join(folder, word)):
            return f"{option} {shlex.quote(' '.join([value, *program[:at]]))}"
        if word.endswith(SCRIPTS):
            break
    return ""


def meant(script: str, folder: str) -> str:
    """Return a guess about a script that is missing in a folder, to append to its name; or "".

    Args:
        script: the word in its place.
        folder: the folder that the workers run in.
    """
    known = COMMANDS.get(script)
    if known and not os.path.isfile(os.path.join(folder, f"{script}.py")):
        return f"; {known}"
    if script.endswith(":"):
        there = "separates two programs, each of which begins with --program NAME"
        return f"; a lone : {there}"
    if "://" in script:
        return "; download it first: a script is a file"
    if script[0] in _DASHES:
        name = script.lstrip(f"{_DASHES}-")
        return f"; {script[0]} is not a hyphen; write --{name}"
    first = script.split()
    if len(first) > 1 and os.path.isfile(os.path.join(folder, first[0])):
        return f"; write {script} without quotes"
    close = _similar(script, folder)
    return f" (did you mean {close}?)" if close else _other(script)


def _other(script: str) -> str:
    """Return a guess about a word that is not the name of a script."""
    if re.fullmatch(r"[A-Za-z0-9_.-]+(:[0-9+-]+)?(,[A-Za-z0-9_.-]+(:[0-9+-]+)?)*,?", script) and (
        "," in script or ":" in script
    ):
        return f"; if these are hosts, write --host {script}"
    if re.fullmatch(r"[A-Za-z_]\w*=.*", script):
        return f"; set a variable with --export {shlex.quote(script)}; arguments follow the script"
    if script.isdecimal():
        return f"; for that many workers per host, write --num_gpus {script}"
    if "/" not in script and not script.endswith(SCRIPTS) and executable.find(script):
        return f"; to run a program, write dsrun [options] --no_python {script}"
    return ""


def _similar(script: str, folder: str) -> str:
    """Return the file with a name similar to the script's, or ""."""
    inner, name = os.path.split(script)
    module = script.replace(".", "/") + ".py"
    if "/" not in script and "." in script and os.path.isfile(os.path.join(folder, module)):
        return f"-m {script}"
    names = scripts_in(os.path.join(folder, inner))
    same = [one for one in names if one.lower() in {name.lower(), f"{name.lower()}.py"}]
    stems = {os.path.splitext(one)[0]: one for one in names}
    close = same[0] if same else stems.get(nearest(os.path.splitext(name)[0], stems), "")
    return shlex.quote(os.path.join(inner, close)) if close else ""
