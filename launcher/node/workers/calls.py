"""Workers that call a function: their command, and the descriptors of payload and report."""

from __future__ import annotations

import base64
import binascii
import fcntl
import os
from contextlib import contextmanager

from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...specs.program import Program
    from .spawn import StartingWorkers, WorkerSpec

REPORT = 3
"""The stream of a worker's report; 1 is stdout, and 2 is stderr."""

CALL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "call.py")
"""The program of these workers, at its path on this node, not on the runner."""


def program(given: Program) -> Program:
    """Return the program of workers that call a function."""
    return given._replace(script=CALL, args=(), module=False, local_rank=False)


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Give each worker the payload and a pipe; after the start keep only our ends of the pipes.

    Raises:
        OSError: descriptors or memory have run out.
        ValueError: the payload is not base64.
    """
    source = _in_memory(starting.task.payload)
    pipes: list[tuple[int, int]] = []
    try:
        for _ in specs:
            pipes.append(system.pipe2(os.O_CLOEXEC))
        yield [_with(spec, source, *pipe) for spec, pipe in zip(specs, pipes, strict=True)]
    finally:
        ours = [read for read, _ in pipes if read not in starting.kept()]
        for fd in (source, *(write for _, write in pipes), *ours):
            system.close(fd)


def _in_memory(payload: str) -> int:
    """Return a descriptor of a memory file with the payload, sealed against changes."""
    try:
        data = memoryview(base64.b64decode(payload, validate=True))
    except binascii.Error as error:
        raise ValueError(f"the payload is not base64: {error}") from None
    fd = system.memfd_create("dsrun-call", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    while data:
        data = data[system.write(fd, data) :]
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
    return fd


def _with(spec: WorkerSpec, source: int, read: int, write: int) -> WorkerSpec:
    system.set_blocking(read, False)
    argv = [*spec.argv, b"%d" % source, b"%d" % write]
    return spec._replace(argv=argv, fds=(*spec.fds, source, write), report=read)
