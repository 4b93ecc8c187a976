"""Checks of this node before a job. Each returns the problem in words, or ""."""

from __future__ import annotations

import os

from ... import __version__
from ...common import executable, system
from ...common.network import own_addresses, same_host
from ...common.wording import ANOTHER_PYTHON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.program import Program


def version_problem(runner: str) -> str:
    """Return the two versions in words if they differ, or ""."""
    if runner == __version__:
        return ""
    return (
        f"dsrun {__version__} is installed here, the runner is {runner}: install the same version"
    )


def host_problem(name: str) -> str:
    """Return why this machine is not the host of that name, or ""; an unknown name passes."""
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
    """Return why the workers cannot run in that folder, or ""."""
    name = os.fsdecode(workdir)
    if not system.isdir(workdir):
        return f"no such folder: {name} (--workdir names another)"
    if not system.access(workdir, os.X_OK):
        return f"no permission to enter folder {name}"
    return ""


def program_problem(
    program: Program, python: bytes, script: bytes, workdir: bytes, path: bytes
) -> str:
    """Return why the program cannot be started here, or ""."""
    if program.no_python:
        return _executable_problem(script, workdir, path)
    if not system.access(python, os.X_OK):
        return f"no Python at {os.fsdecode(python)} {ANOTHER_PYTHON}"
    if program.module:
        return ""
    full = os.path.join(workdir, script)
    if not system.exists(full):
        return f"no such script: {os.fsdecode(full)}"
    if not system.access(full, os.R_OK):
        return f"no permission to read script {os.fsdecode(full)}"
    return ""


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
