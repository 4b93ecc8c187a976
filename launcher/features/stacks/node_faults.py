"""Stacks that Python writes itself on a signal (`faulthandler`), where py-spy cannot read them.

The signal is sent only to processes that handle it and have the file of the hook open: it would
kill others. It could also kill running processes: faulthandler follows the frames of all threads
without Python's lock, and meets half-made ones (a data loader's process died of 1 signal in 100,
CPython 3.11).
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

from ...common import system
from ...node.machine import processes
from . import node_memory_files as memory_files
from .hook import sitecustomize as hook
from .messages import ThreadStack
from .node_family import status
from .node_py_spy import is_own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    from .node_family import Member

    Turns: TypeAlias = dict[str, tuple[str | None, ...]]

QUIET = 0.03
"""Seconds without output after which a process has written all of its stacks."""

STEP = 0.005
"""Seconds between two checks of the written text."""

YOUNG = 0.5
"""Seconds for which a new process gets no signal: it may be about to execute a program, which would
be killed."""

REST = 0.03
"""Seconds for which no thread of a process has run when it gets the signal."""

TRIES = 5
"""Number of checks for these seconds: threads of NCCL run every 0.1 s."""

FIRST_OF_3 = 14
"""The minor version of Python 3 from which on a process is asked before py-spy reads it."""

LARGEST = 4 << 20
"""Maximum bytes read of one process's stacks."""

_TICK = os.sysconf("SC_CLK_TCK")

_SWITCHES = "voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+(?: \[([^\]]*)\])?.* \(most recent")
_FRAME = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')


def read(members: Iterable[Member], until: float) -> dict[int, tuple[ThreadStack, ...]]:
    """Return, by pid, the stacks of those processes that are idle and can write them."""
    left = list(members)
    found: dict[int, tuple[ThreadStack, ...]] = {}
    for _ in range(TRIES):
        if not left or system.monotonic() > until:
            break
        before = {one.pid: _turns(one.pid) for one in left}
        system.sleep(REST)
        calm = [one for one in left if _rests(one.pid, before[one.pid])]
        found |= _read(calm, before, until)
        left = [one for one in left if one not in calm]
    return found


def _turns(pid: int) -> Turns:
    """Return the number of times that each thread of a process stopped; {} if one runs now."""
    turns: dict[str, tuple[str | None, ...]] = {}
    with suppress(OSError, ValueError, KeyError):  # one has ended, or the process
        for task in system.listdir(f"/proc/{pid}/task"):
            facts = status(int(task))
            if facts["State"][:1] == "R":
                return {}
            turns[task] = tuple(map(facts.get, _SWITCHES))
    return turns


def _rests(pid: int, before: Turns) -> bool:
    """Return whether no thread of a process has run since then."""
    return bool(before) and _turns(pid) == before


def _read(
    members: Iterable[Member], before: Mapping[int, Turns], until: float
) -> dict[int, tuple[ThreadStack, ...]]:
    """Return the stacks that these processes write.

    All processes of a worker write to one file, so they are asked one after the other.
    """
    by_rank: dict[int, list[int]] = {}
    for one in members:
        by_rank.setdefault(one.rank, []).append(one.pid)
    found: dict[int, tuple[ThreadStack, ...]] = {}
    while by_rank and system.monotonic() < until:
        asked = [pids.pop(0) for pids in by_rank.values()]
        by_rank = {rank: pids for rank, pids in by_rank.items() if pids}
        resting = [pid for pid in asked if _rests(pid, before[pid])]
        for pid, text in _texts(resting, until).items():
            if threads := tuple(parse(pid, text)):
                found[pid] = threads
    return found


def _texts(pids: Iterable[int], until: float) -> dict[int, str]:
    """Make these processes write, all at once, and return the text of each."""
    asked = {pid: file for pid in pids if (file := _ask(pid)) is not None}
    sizes = dict.fromkeys(asked, 0)
    settled = system.monotonic() + 4 * QUIET  # to begin may take longer
    while asked and system.monotonic() < min(until, settled):
        system.sleep(STEP)
        now = {pid: file.size for pid, file in asked.items()}
        if now != sizes:
            settled = system.monotonic() + QUIET
        sizes = now
    texts = {pid: file.read(LARGEST).decode("utf-8", "replace") for pid, file in asked.items()}
    for file in asked.values():
        file.close()
    return texts


def goes_first(pid: int) -> bool:
    """Return whether a process should write its stacks itself, if it is idle.

    py-spy knows the memory layout of each version of Python: 0.4.1 could not read 3.14.
    """
    _, version = memory_files.find(pid, hook.STACKS)
    major, _, minor = version.partition(".")
    return (major, minor.isdigit() and int(minor) >= FIRST_OF_3) == ("3", True)


def _ask(pid: int) -> memory_files.MemoryFile | None:
    """Send the signal, and return the file to which its process writes; None if it will not."""
    number, _ = memory_files.find(pid, hook.STACKS)
    if number < 0:
        return None
    with suppress(OSError, ValueError, KeyError):  # it has ended, or now belongs to another user
        fd = system.pidfd_open(pid)
        try:
            if _age(pid) > YOUNG and handles(pid, hook.SIGNAL):
                file = memory_files.MemoryFile(pid, number)
                system.pidfd_send_signal(fd, hook.SIGNAL)
                return file
        finally:
            system.close(fd)
    return None


def _age(pid: int) -> float:
    started = processes.started(pid) / _TICK
    return system.clock_gettime(time.CLOCK_BOOTTIME) - started if started else 0.0


def handles(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal (SigCgt in proc(5)).

    Raises:
        OSError, ValueError, KeyError: the handlers are not known.
    """
    return bool(int(status(pid)["SigCgt"], 16) >> (number - 1) & 1)


def parse(pid: int, text: str) -> Iterator[ThreadStack]:
    """Yield the threads in faulthandler's output, which begins with the newest."""
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
