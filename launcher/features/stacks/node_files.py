"""Stacks as text files in the log folder of a job, one for each rank."""

from __future__ import annotations

import os
import time

from ...common import system
from ...node.workers import error_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...node.workers.spawn import Process
    from .messages import ProcessState, StacksAnswer

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

_VARIABLE = error_file.VARIABLE.encode()


def save(stacks: StacksAnswer, workers: Sequence[Process]) -> str:
    """Add the stacks of each rank to its file; return the folder of the files.

    It is "" if the job has no log folder here, or if they cannot be written.
    """
    folder = ""
    for worker in workers:
        path = path_of(os.fsdecode(worker.spec.env.get(_VARIABLE, b"")))
        if not path:
            return ""
        try:
            fd = system.open_fd(path, _FLAGS, 0o600)
            with system.open_file(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.writelines(f"{line}\n" for line in lines(stacks, worker.spec.rank))
        except OSError:
            return ""
        folder = folder or os.path.dirname(path)
    return folder


def path_of(errors: str) -> str:
    """Return the file for stacks next to that for errors; "" if errors are in memory."""
    folder, name = os.path.split(errors)
    if not folder or folder.startswith("/proc/"):
        return ""
    rank = name.removesuffix(".json")
    return os.path.join(folder, "stacks.log" if rank == "error" else f"{rank}.stacks")


def lines(stacks: StacksAnswer, rank: int) -> Iterator[str]:
    """Yield the lines about a rank, with the time of day first."""
    yield time.strftime("%Y-%m-%d %H:%M:%S %z", time.localtime(system.time()))
    for row in stacks.processes:
        if row.rank == rank:
            yield from _of_process(stacks, row)


def _of_process(stacks: StacksAnswer, row: ProcessState) -> Iterator[str]:
    waits = f", waits in {row.waits_in}" if row.waits_in else ""
    yield f"pid {row.pid} (state {row.state}{waits}): {row.command}"
    if row.problem:
        yield f"  {row.problem}"
    for thread in stacks.threads:
        if thread.pid == row.pid:
            active = " (active)" if thread.active else ""
            yield f"  thread {thread.name or '?'}{active}"
            yield from (f"    {frame}" for frame in thread.frames)
