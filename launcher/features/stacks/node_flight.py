"""The records of torch's flight recorder for each worker: from the worker, or from its dump.

A worker's answer includes the stack of its main thread.

A worker answers by the thread that its hook has started, unless another thread holds Python's lock
(GIL). NCCL's watchdog dumps when a collective has timed out.
"""

from __future__ import annotations

import io
import os
import pickle
import stat
from contextlib import suppress

from ...common import system
from ...common.text import read_json
from . import node_memory_files as memory_files
from . import node_recorded as recorded
from .hook import sitecustomize as hook
from .node_outfit import DUMP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    from ...node.workers.spawn import Process
    from .messages import Collective

    Records: TypeAlias = dict[int, list[object]]
    from typing import NoReturn

LARGEST = 16 << 20
"""Bytes that are read of one worker."""

STEP = 0.002
"""Seconds between two looks whether an answer is there."""


def ask(workers: Iterable[Process]) -> dict[int, memory_files.MemoryFile]:
    """Ask these workers; return, by rank, the files to which they write their answers."""
    return {one.spec.rank: file for one in workers if (file := _ask(one.pid)) is not None}


def records(
    workers: Sequence[Process], asked: Mapping[int, memory_files.MemoryFile], until: float
) -> Records:
    """Return the records of these workers that arrive in time, by rank."""
    answers: dict[int, bytes] = {}
    while len(answers) < len(asked) and system.monotonic() < until:
        for rank in asked.keys() - answers.keys():
            data = asked[rank].read(LARGEST)
            if data.endswith(b"\n"):
                answers[rank] = data
        system.sleep(STEP)
    for file in asked.values():
        file.close()
    dumps = [one for one in workers if one.spec.rank not in answers]
    found = {rank: _parsed(data) for rank, data in answers.items()}
    return found | {one.spec.rank: [dump] for one in dumps if (dump := _dump(one)) is not None}


def collectives(told: Records) -> tuple[Collective, ...]:
    """Return the newest collectives of workers."""
    return tuple(
        row
        for rank, every in sorted(told.items())
        for record in every
        for row in recorded.newest(rank, record, system.time())
    )


def main_threads(told: Records) -> dict[int, tuple[str, ...]]:
    """Return the main threads' stacks that workers have reported, by rank."""
    found = ((rank, recorded.frames(one)) for rank, every in told.items() for one in every)
    return {rank: frames for rank, frames in found if frames}


def _ask(pid: int) -> memory_files.MemoryFile | None:
    """Ask a worker; return the file to which it writes the answer, None if it cannot be asked."""
    number, pipe = memory_files.find(pid, hook.COLLECTIVES)
    if number < 0:
        return None
    with suppress(OSError, ValueError):
        file = memory_files.MemoryFile(pid, number)
        fd = system.open_fd(
            f"/proc/{pid}/fd/{int(pipe)}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC
        )
        try:
            if stat.S_ISFIFO(system.fstat(fd).st_mode):
                system.write(fd, b"?")
                return file
        finally:
            system.close(fd)
        file.close()
    return None


def _parsed(data: bytes) -> list[object]:
    try:
        found = read_json(data)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _dump(worker: Process) -> object:
    """Return the dump of NCCL's watchdog for this worker, or None."""
    prefix = worker.spec.env.get(DUMP.encode(), b"")
    if not prefix:
        return None
    with suppress(OSError, ValueError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = system.open_fd(prefix + b"%d" % worker.spec.rank, flags)
        with system.open_file(fd, "rb") as file:
            status = system.fstat(fd)
            own = stat.S_ISREG(status.st_mode) and status.st_uid == system.geteuid()
            if own and status.st_size <= LARGEST:
                return loads(file.read(LARGEST))
    return None


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise ValueError(f"{module}.{name} in a pickle of plain values")

    def persistent_load(self, _pid: object) -> NoReturn:
        raise ValueError("a reference in a pickle of plain values")


def loads(data: bytes) -> object:
    """Return the value in a pickle: dict, list, tuple, str, bytes, int, float, bool, None.

    Raises:
        ValueError: the data is no pickle, or has other values.
    """
    try:
        return _Plain(io.BytesIO(data)).load()
    except ValueError:
        raise
    except Exception as error:  # the exceptions of broken pickles are not documented
        raise ValueError(f"not a pickle: {error!r}") from None
