"""The folder that is synced to the nodes, from the options."""

from __future__ import annotations

import os

from ...common.errors import UsageError
from ...planning.folders import from_here
from ...specs.sync import SyncSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...cli.options import Options
    from ...specs.job import JobSpec
    from ...specs.program import Program

UNITS = {
    "": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", 1)},
}
"""Bytes in each unit."""


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose folder is synced to the nodes.

    Raises:
        UsageError: see `sync_spec`.
    """
    return spec._replace(sync=sync_spec(options, spec))


def sync_spec(options: Options, job: JobSpec) -> SyncSpec:
    """Return the folder of --sync.

    Args:
        options: the options; `sync` and `sync_limit` are used.
        job: the job, whose paths must lie in the folder.

    Raises:
        UsageError: there is no such folder, or the workers would run outside of the folder.
    """
    limit = _size("--sync_limit", options.sync_limit)
    if job.plan.rendezvous is not None:
        raise UsageError(
            f"--sync: not with --rdzv_backend {job.plan.rendezvous.backend}, as each node runs this"
            " command in its own folder"
        )
    source = os.path.realpath(from_here(options.sync or ""))
    if not os.path.isdir(source):
        from ...common.access import absence

        why = absence(source, "no such folder") or "is not a folder"
        raise UsageError(f"--sync {options.sync}: {why}")
    workdir = job.workdir
    inside = _relative(workdir, source)
    if inside is None:
        raise UsageError(
            f"--sync {options.sync}: the workers' folder {workdir} is not in it; sync a folder that"
            " contains it, or choose another with --workdir"
        )
    named = {one: _relative(one, source) for one in _paths(job)}
    moved = {path: place for path, place in named.items() if place is not None}
    script = _script(job.plan.program, workdir, source)
    return SyncSpec(source, limit, {workdir: inside, **moved}, script)


def _paths(job: JobSpec) -> Iterator[str]:
    program, path = job.plan.program, job.travel.values.get("PYTHONPATH", "").split(":")
    pythons = (program.python or "", program.project_python)
    for one in (program.script, *pythons, job.workers.venv_script, *path):
        if os.path.isabs(one):
            yield one


def _script(program: Program, workdir: str, source: str) -> str:
    """Return the script's relative path, "" if it is no file or elsewhere on all nodes.

    Raises:
        UsageError: its path is relative to the workers' folder, and leaves the synced folder.
    """
    script = program.script
    if not script or program.module or (program.no_python and "/" not in script):
        return ""
    place = _relative(os.path.join(workdir, script), source)
    if place is None and not os.path.isabs(script):
        raise UsageError(f"--sync {source}: the script {script} is not in it")
    return place or ""


def _relative(path: str, source: str) -> str | None:
    """Return a path relative to the folder, "" for the folder itself, None if it is outside."""
    folder, name = os.path.split(os.path.normpath(path))
    for real in (os.path.join(os.path.realpath(folder), name), os.path.realpath(path)):
        if real == source:
            return ""
        if real.startswith(source.rstrip("/") + "/"):
            return os.path.relpath(real, source)
    return None


def _size(flag: str, text: str) -> int:
    """Return a number of bytes, given as e.g. `500MB` or `2GiB`.

    Raises:
        UsageError: the text is not a number of bytes.
    """
    digits = text.rstrip("BGIKMTbgikmt ")
    unit = UNITS.get(text[len(digits) :].strip().lower())
    try:
        size = float(digits) * (unit or 0)
    except ValueError:
        size = 0.0
    if not 1 <= size < 1 << 60:
        raise UsageError(f"{flag} {text!r}: expected a size such as 500MB, 2GB or 1.5GiB")
    return int(size)
