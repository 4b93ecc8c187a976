"""Lines that are often typed where another is meant, each with the line that helps."""

from __future__ import annotations

import os
import re

from ..common.errors import UsageError
from .peers import TORCHRUN_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ..specs.program import Program

HEAD = 512
"""Bytes of a script that are looked at."""

OURS = TORCHRUN_NAMES | {
    *("num_gpus", "num_nodes", "hostfile", "include", "master_port", "launcher", "no_local_rank"),
}
"""Options that hardly any script has itself."""

_PYTHON = r"(.*/)?python[0-9.]*"
_LAUNCHERS = {"torchrun", "deepspeed"}
_SHELL = rb"#!\s*(\S*/env\s+(-\S+\s+)*)?\S*\b(sh|bash|dash|zsh|ksh|csh|tcsh|fish)\b"
# What is a script of both has its second line in quotes; pip writes such, where paths are long.
_BOTH = rb"#![^\n]*\n\s*['\"]"


def check(program: Program, folder: str) -> None:
    """See that the script can be one of Python's.

    Args:
        program: what the workers are to run.
        folder: where they run; what does not lie there on this machine is not looked at.

    Raises:
        UsageError: it is something else; says what was meant.
    """
    if program.module or program.no_python:
        return
    script = program.script
    if "python" in script and re.fullmatch(_PYTHON, script):
        raise UsageError(
            f"{script}: dsrun starts python itself: dsrun [options] SCRIPT [ARGS...]"
            " (--python names another)"
        )
    path = os.path.join(folder, script)
    if script in _LAUNCHERS and not os.path.exists(path):
        raise UsageError(f"{script}: dsrun stands in its place: leave the word out")
    kind = _kind(path)
    if kind:
        shown = script if "/" in script else f"./{script}"
        raise UsageError(
            f"{script}: {kind}, not one of Python: dsrun [options] --no_python {shown} runs it"
            " (with --no_local_rank if it takes no --local_rank=N)"
        )


def notes(program: Program, given: Collection[str]) -> list[str]:
    """Return a line where an option behind the script is likely to be meant for dsrun.

    Args:
        program: what the workers are to run.
        given: options that dsrun has got.
    """
    if program.no_python:
        return []
    own = program.args[: program.args.index("--")] if "--" in program.args else program.args
    names = {word: word[2:].partition("=")[0].replace("-", "_") for word in own if word[:2] == "--"}
    found = [word for word, name in names.items() if name in OURS and name not in given]
    if not found:
        return []
    flag = found[0].partition("=")[0]
    return [
        f"{flag} behind {program.script} is the script's own; as an option of dsrun it goes before"
    ]


def _kind(path: str) -> str:
    """Return what the file is if it is known not to be of Python, else ""."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return ""
    if head.startswith(b"\x7fELF"):
        return "a program"
    if not head.startswith(b"#!"):
        return ""
    return "a shell script" if re.match(_SHELL, head) and not re.match(_BOTH, head) else ""
