"""Checks on this machine before anything starts."""

from __future__ import annotations

import os

from ..backends import BACKENDS
from ..common import executable
from ..common.errors import UsageError
from ..resources import source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..specs.job import JobSpec
    from ..specs.program import Program


def check(spec: JobSpec) -> None:
    """Check that script, folders and secret exist, if this machine needs them.

    Raises:
        UsageError: a file does not exist or cannot be used.
    """
    plan, backend = spec.plan, BACKENDS[spec.plan.launcher]
    if backend.runs_here or any(source.is_here(n.host) for n in plan.nodes):
        _check_folder(spec)
        if not spec.workers.venv_script:
            _check_script(plan.program, spec.workdir)
        _check_log_dir(spec)
    if backend.joins:
        from ..common.secret import shared_secret

        shared_secret(spec.dial_in.token_file)


def _check_folder(spec: JobSpec) -> None:
    venv = spec.workers.venv_script
    if not os.path.isdir(spec.workdir):
        why = _absence(spec.workdir, "no such folder") or "is not a folder"
        raise UsageError(f"--workdir {spec.workdir}: {why}")
    if venv and not os.path.exists(venv) and not spec.checks.setup:
        raise UsageError(f"--venv_script {venv}: {_absence(venv, 'no such file')}")


def _absence(path: str, words: str) -> str:
    from ..common.access import absence

    return absence(path, words)


def _check_script(program: Program, workdir: str) -> None:
    full = os.path.join(workdir, program.script.removeprefix("./"))
    if program.module:
        return
    if program.no_python and "/" not in program.script:
        _check_name(program.script, full)
        return
    if not os.path.exists(full):
        why = _absence(full, "")
        raise UsageError(
            f"script {full}: {why}"
            if why
            else f"no such script: {full}{_advice(program.script, workdir)}"
        )
    if os.path.isdir(full) and not program.no_python:
        _check_main(full)
    why = executable.fault(full) if program.no_python else ""
    if why:
        raise UsageError(f"--no_python {full}: {why}")


def _check_main(folder: str) -> None:
    main = os.path.join(folder, "__main__.py")
    if os.path.exists(main):
        return
    why = _absence(main, "is a folder without a __main__.py; name a script in it")
    raise UsageError(f"{folder}: {why}")


def _advice(script: str, workdir: str) -> str:
    """Return the likely name of a missing script, else the scripts that are there; or ""."""
    from ..cli.script_words import meant
    from ..common.scripts import present

    return meant(script, workdir) or present(script, workdir)


def _check_name(name: str, full: str) -> None:
    """Check that a program without a path is on PATH, if the folder has a file of that name."""
    if not os.path.isfile(full):
        return
    if not executable.find(name):
        raise UsageError(
            f"--no_python {name}: no such program on PATH; ./{name} is the one in this folder"
        )


def _check_log_dir(spec: JobSpec) -> None:
    log_dir = spec.output.log_dir
    folder = os.path.join(spec.workdir, log_dir)
    if log_dir and os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"--log_dir {folder}: is a file; name a folder")
