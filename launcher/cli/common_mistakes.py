"""Frequent mistakes in command lines, each with a message that shows the correct form."""

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
"""Bytes at the beginning of a script that are read."""

OURS = TORCHRUN_NAMES | {
    *("num_gpus", "num_nodes", "hostfile", "include", "master_port", "launcher", "no_local_rank"),
}
"""Options that hardly any training script has."""

_PYTHON = r"(.*/)?python[0-9.]*"
_LAUNCHERS = {  # words to leave out
    "torchrun": "torchrun",
    "deepspeed": "deepspeed",
    "accelerate": "accelerate launch",
    **dict.fromkeys(("mpirun", "mpiexec", "srun", "horovodrun", "torchx"), "it"),
}
_DATA = {
    **dict.fromkeys((".yaml", ".yml"), "a YAML file"),
    **dict.fromkeys((".csv", ".tsv"), "a table"),
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors", ".npy", ".npz"), "data"),
    ".json": "a JSON file",
    ".jsonl": "a JSON file",
    ".toml": "a TOML file",
    ".md": "a text file",
}
"""Descriptions of files that are never scripts, by the end of their names."""

_BARE = "a shell script without #!"
_HOSTFILE = "a hostfile"
_SHELL = rb"#!\s*(\S*/env\s+(-\S+\s+)*)?\S*\b(sh|bash|dash|zsh|ksh|csh|tcsh|fish)\b"
# A file may be a script for both shell and Python; then its second line begins with a quotation
# mark. pip writes such files where the path of the interpreter is long.
_BOTH = rb"#![^\n]*\n\s*['\"]"


def check(program: Program, folder: str, *, here: bool) -> None:
    """Check that the script may be a Python script.

    Args:
        program: the program of the workers.
        folder: their working directory; if the script does not exist there on this machine, only
            its name is checked.
        here: whether the job runs on this machine alone.

    Raises:
        UsageError: the file is not a Python script; the message has the correct command.
    """
    if program.module:
        _check_module(program.script, folder)
    if program.module or program.no_python:
        return
    script = program.script
    if "python" in script and re.fullmatch(_PYTHON, script):
        raise UsageError(
            f"{script}: dsrun starts Python itself; write dsrun [options] SCRIPT [ARGS...]"
            " (--python chooses the interpreter)"
        )
    path = os.path.join(folder, script)
    if script in _LAUNCHERS and not os.path.exists(path):
        named = _LAUNCHERS[script]
        words = f"leave {'these words' if ' ' in named else 'this word'} out"
        raise UsageError(f"{script}: dsrun replaces {script if named == 'it' else named}; {words}")
    _check_data(script, path)
    if not os.path.exists(path):
        _check_name(script, path, folder, here=here)
    kind = _kind(path)
    if kind == _HOSTFILE:
        raise UsageError(f"{script}: this is a hostfile; write dsrun --hostfile {script} SCRIPT")
    if kind:
        shown = script if "/" in script else f"./{script}"
        shown = f"bash {script}" if kind == _BARE else shown
        raise UsageError(
            f"{script}: {kind}, not a Python script; write dsrun [options] --no_python {shown}"
            " (with --no_local_rank if it does not accept --local_rank=N)"
        )


def _check_module(name: str, folder: str) -> None:
    if name.endswith(".py") and os.path.isfile(os.path.join(folder, name)):
        module = name.removeprefix("./").removesuffix(".py").replace("/", ".").strip(".")
        raise UsageError(
            f"-m {name}: a module is named without .py; write -m {module}, or leave -m out"
        )


def _check_name(script: str, path: str, folder: str, *, here: bool) -> None:
    """Check that the name of a missing script is not mistyped.

    Other nodes may have the script: they check paths with a slash.
    """
    if "/" in script and not here and "://" not in script:
        return
    from .script_words import meant

    if text := meant(script, folder):
        also = "" if here else f"; write ./{script} if only the nodes have it"
        raise UsageError(f"no such script: {path}{text}{also}")


def _check_data(script: str, path: str) -> None:
    end = os.path.splitext(script)[1].lower()
    if end == ".ipynb":
        raise UsageError(
            f"{script}: a notebook; convert it with jupyter nbconvert --to script {script},"
            " or see docs/recipes.md#notebook"
        )
    if end not in _DATA or not os.path.isfile(path):
        return
    roles = f"; a file of roles goes with --roles {script}" * (end == ".toml")
    raise UsageError(
        f"{script}: {_DATA[end]}, not a Python script; the script comes first: dsrun train.py"
        f" {script}{roles}"
    )


def notes(program: Program, given: Collection[str]) -> list[str]:
    """Return a note if an option after the script is probably meant for dsrun."""
    if program.no_python:
        return []
    own = program.args[: program.args.index("--")] if "--" in program.args else program.args
    names = {word: word[2:].partition("=")[0].replace("-", "_") for word in own if word[:2] == "--"}
    meant = [word for word, name in names.items() if name in OURS and name not in given]
    if not meant:
        return []
    flag = meant[0].partition("=")[0]
    script = program.script
    return [f"{flag} after {script} is passed to {script}; dsrun's options go before it"]


def _compiles(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            compile(file.read(), path, "exec")
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def _lists_hosts(head: bytes) -> bool:
    """Return whether a file begins with a line of a hostfile, after comments and empty lines."""
    lines = (line.strip() for line in head.splitlines())
    first = next((line for line in lines if line and not line.startswith(b"#")), b"")
    return re.match(rb"[\w.,\[\]-]+[ \t]+slots[ \t]*=[ \t]*[0-9]", first) is not None


def _kind(path: str) -> str:
    """Return the kind of a file that is not a Python script, else ""."""
    if not os.path.isfile(path):
        return ""
    try:
        with open(path, "rb") as file:
            head = file.read(HEAD)
    except OSError:
        return ""
    if head.startswith(b"\x7fELF"):
        return "an executable"
    if _lists_hosts(head):
        return _HOSTFILE
    if not head.startswith(b"#!"):
        return _BARE if path.endswith((".sh", ".bash")) and not _compiles(path) else ""
    return "a shell script" if re.match(_SHELL, head) and not re.match(_BOTH, head) else ""
