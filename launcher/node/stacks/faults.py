"""Stacks that Python itself writes on a signal (`faulthandler`), where py-spy cannot read them.

The signal is sent only to processes that handle it and have the file of the hook open: others would
die of it.
"""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import suppress

from ...control.stack_messages import ThreadStack
from .. import processes
from ..hook import sitecustomize as hook
from . import memory_files
from .family import status
from .py_spy import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .family import Member

QUIET = 0.03
"""Seconds without another byte after which a process has written all of its stacks."""

STEP = 0.005
"""Seconds between two looks at what has been written."""

YOUNG = 0.5
"""Seconds for which a process gets no signal: it may be about to execute a program, which would die
of it."""

LARGEST = 4 << 20
"""Bytes of the stacks of one process that are read."""

_TICK = os.sysconf("SC_CLK_TCK")

_THREAD = re.compile(r"(?:Current thread|Thread) (?:0x[0-9a-f]+)(?: \[(.*?)\])?.* \(most recent")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def read(members: Iterable[Member], until: float) -> dict[int, tuple[ThreadStack, ...]]:
    """Return the stacks of those of these processes that write them, by pid.

    All processes of a worker write to the same file, so they are asked one after the other.
    """
    by_rank: dict[int, list[int]] = {}
    for one in members:
        by_rank.setdefault(one.rank, []).append(one.pid)
    found: dict[int, tuple[ThreadStack, ...]] = {}
    while by_rank and time.monotonic() < until:
        asked = [pids.pop(0) for pids in by_rank.values()]
        by_rank = {rank: pids for rank, pids in by_rank.items() if pids}
        for pid, text in _texts(asked, until).items():
            if threads := tuple(parse(pid, text)):
                found[pid] = threads
    return found


def _texts(pids: Iterable[int], until: float) -> dict[int, str]:
    """Have these processes write, all at once, and return what each has written."""
    asked = {pid: file for pid in pids if (file := _ask(pid)) is not None}
    sizes = dict.fromkeys(asked, 0)
    settled = time.monotonic() + 4 * QUIET  # to begin may take longer
    while asked and time.monotonic() < min(until, settled):
        time.sleep(STEP)
        now = {pid: file.size for pid, file in asked.items()}
        if now != sizes:
            settled = time.monotonic() + QUIET
        sizes = now
    texts = {pid: file.read(LARGEST).decode("utf-8", "replace") for pid, file in asked.items()}
    for file in asked.values():
        file.close()
    return texts


def _ask(pid: int) -> memory_files.MemoryFile | None:
    """Send the signal, and return the file to which its process writes; None if it will not."""
    number, _ = memory_files.find(pid, hook.STACKS)
    if number < 0:
        return None
    with suppress(OSError, ValueError, KeyError):  # it has ended, or is another user's by now
        fd = os.pidfd_open(pid)
        try:
            if _age(pid) > YOUNG and handles(pid, hook.SIGNAL):
                file = memory_files.MemoryFile(pid, number)
                signal.pidfd_send_signal(fd, hook.SIGNAL)
                return file
        finally:
            os.close(fd)
    return None


def _age(pid: int) -> float:
    """Return the age of a process in seconds, 0.0 if it has ended."""
    started = processes.started(pid) / _TICK
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started if started else 0.0


def handles(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal (SigCgt in proc(5)).

    Raises:
        OSError, ValueError, KeyError: that is not known.
    """
    return bool(int(status(pid)["SigCgt"], 16) >> (number - 1) & 1)


def parse(pid: int, text: str) -> Iterator[ThreadStack]:
    """Yield the threads in what faulthandler has written; it begins with the newest."""
    blocks: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if match := _THREAD.match(line):
            blocks.append((match[1] or "", []))
        elif blocks and (match := _FRAME.match(line)):
            file, number, function = match.groups()
            where = file if number == "???" else f"{file}:{number}"
            blocks[-1][1].append(f"{function} ({where})")
    for at, (name, frames) in enumerate(blocks, 1):
        one = ThreadStack(pid, name, at == len(blocks), False, tuple(frames))
        if not is_own(one):
            yield one
