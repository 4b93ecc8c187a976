"""Checks of this node before a job. Each returns the problem in words, or ""."""

from __future__ import annotations

import os
import sys

from ... import __version__
from ...common import executable, system
from ...common.network import own_addresses, same_host
from ...common.wording import ANOTHER_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...specs.program import Program


def version_problem(runner: str) -> str:
    """Return the two versions in words if they differ, or ""."""
    if runner == __version__:
        return ""
    return (
        f"dsrun {__version__} is installed here, but the runner is dsrun {runner}:"
        " install the same version"
    )


def host_problem(name: str) -> str:
    """Return why this machine is not the named host, or ""; an unknown name passes."""
    here = system.uname().nodename
    if same_host(name, here) or same_host(name, os.environ.get("SLURMD_NODENAME", here)):
        return ""
    try:
        addresses = system.addresses_of(name)
    except OSError:
        return ""
    if addresses & set(own_addresses()) or all(one.startswith("127.") for one in addresses):
        return ""
    return f"the engine started its node launcher on another host, {here}"


def folder_problem(workdir: bytes) -> str:
    """Return why the workers cannot run in this folder, or ""."""
    if system.isdir(workdir) and system.access(workdir, os.X_OK):
        return ""
    name = os.fsdecode(workdir)
    missing = f"no such folder: {name}"
    is_file = system.exists(workdir) and not system.isdir(workdir)
    why = missing if is_file else _problem("folder", name, os.X_OK)
    return f"{why} (--workdir names another)" if why == missing else why


def program_problem(
    program: Program,
    python: bytes,
    script: bytes,
    workdir: bytes,
    path: bytes,
    modules: Sequence[bytes] = (),
) -> str:
    """Return why the program cannot be started here, or "".

    Args:
        program: the program.
        python: the path of the interpreter.
        script: the path of the script, or the name of the module.
        workdir: the folder that the program runs in.
        path: the program's PATH.
        modules: the folders that Python searches first for modules.
    """
    if program.no_python:
        return _executable_problem(script, workdir, path)
    if not system.access(python, os.X_OK):
        why = _problem("Python", os.fsdecode(python), os.X_OK)
        if " may not " in why:
            return f"{why} {ANOTHER_PYTHON}"
        from ...features.quick_check import node_pythons as pythons

        return pythons.problem(os.fsdecode(python), os.fsdecode(path).split(os.pathsep))
    if program.module:
        return _module_problem(os.fsdecode(script), modules, os.fsdecode(python))
    full = os.fsdecode(os.path.join(workdir, script))
    if not system.access(full, os.R_OK):
        return _problem("script", full, os.R_OK)
    return _main_problem(full) if system.isdir(full) else ""


def _problem(kind: str, path: str, right: int) -> str:
    from ...common.access import problem

    return problem(kind, path, right)


def _main_problem(folder: str) -> str:
    """Return why Python cannot run a folder, or ""."""
    main = os.path.join(folder, "__main__.py")
    return "" if system.access(main, os.R_OK) else _problem("script", main, os.R_OK)


def _module_problem(name: str, folders: Sequence[bytes], python: str) -> str:
    """Return the part of a module in these folders that this user may not read.

    Installed modules are not examined. A folder that cannot be entered is not a package for Python,
    which then uses an installed package of that name.
    """
    words = name.split(".")
    for folder in map(os.fsdecode, folders):
        top = os.path.join(folder, words[0])
        if not (system.isdir(top) or system.exists(f"{top}.py")):
            continue
        parts = [os.path.join(folder, *words[: at + 1]) for at in range(len(words))]
        last = [f"{parts[-1]}.py", f"{parts[-1]}/__main__.py"]
        needed = [*(f"{one}/__init__.py" for one in parts), *last]
        why = next(filter(None, map(_forbidden, needed)), "")
        closed = why and system.isdir(top) and not system.access(top, os.X_OK)
        return (
            "" if not why or (closed and _is_installed(words[0], python)) else f"-m {name}: {why}"
        )
    return ""


def _forbidden(path: str) -> str:
    above = os.path.dirname(path)
    if system.access(path, os.R_OK) or (system.access(above, os.X_OK) and not system.exists(path)):
        return ""
    from ...common.access import denied

    return denied(path, os.R_OK)


def _is_installed(module: str, python: str) -> bool:
    from ...features.quick_check.node_interpreter import interpreter

    if module in sys.stdlib_module_names:
        return True
    folders = interpreter(python, {}).folders
    return any(system.exists(f"{one}/{module}") for one in folders)


def _executable_problem(script: bytes, workdir: bytes, path: bytes) -> str:
    folders = [workdir] if b"/" in script else path.split(b":")
    full = [os.fsdecode(os.path.join(folder, script.removeprefix(b"./"))) for folder in folders]
    existing = [one for one in full if system.exists(one)]
    faults = [executable.fault(one) for one in existing]
    if "" in faults:
        return ""
    if not existing:
        name = os.fsdecode(script)
        if b"/" in script:
            return f"no such program: {name} (--no_python runs an executable file)"
        return f"no such program: {name} is not on its PATH; give a path"
    return f"--no_python {existing[0]}: {faults[0]}"
