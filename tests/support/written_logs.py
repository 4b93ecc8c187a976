"""Logs that a test writes to, until they are closed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node.machine import processes

from .limits import HANG

if TYPE_CHECKING:
    from dsrun.launcher.node.workers.log_writer import LogWriter


def write(logs: LogWriter | None, *records: tuple[int, int, bytes], reap: bool = True) -> None:
    """Write records of rank, stream and data; return once the files are closed, or given up."""
    assert logs is not None
    loop = Loop()
    logs.serve(loop, lambda: None)
    for rank, stream, data in records:
        sink = logs.sink(rank, stream)
        assert sink is not None
        sink(data)
    to_the_end(loop, logs, reap=reap)


def to_the_end(loop: Loop, logs: LogWriter, *, reap: bool = True) -> None:
    """Close logs; return once all is written, and their process is gone, if that is to be."""
    over: list[bool] = []
    last = time.monotonic() + HANG
    logs.close(lambda: over.append(True))
    while not over or (reap and logs.pid):
        assert time.monotonic() < last
        loop.call_later(0.0, loop.stop)
        loop.run()
        for pid in processes.reap() if reap else ():
            logs.on_reaped(pid)
