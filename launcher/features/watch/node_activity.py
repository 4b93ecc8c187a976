"""ACTIVITY: the work of this node's workers, read from /proc at regular times."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from ...common import system
from ...common.network import lines_of
from ...common.records import NamedTuple
from ...control import frames, messages
from ...control.activity_messages import Activity, RankActivity
from ...node.machine import processes
from ...node.service import NodeService
from ..full_check import node_throttling as throttling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ...common.loop import Timer
    from ...control.activity_messages import LinkActivity
    from ...control.messages import Start
    from ...node.service import ServiceContext
    from ...node.workers.group import WorkerGroup
    from ...node.workers.spawn import Process

MOST_PROCESSES = 256
"""Most processes of a worker to examine; more are left out."""

MOST_THREADS = 256
"""Most threads of a process to search for children."""

SHARE = 0.01
"""Most of a core that idle processes use, for timers and watchdogs, and that this module uses."""

LEAST = 0.02
"""Seconds of CPU time that count as work in a short interval; the kernel counts ticks of 0.01."""

MOVED = 8192
"""Bytes a second that idle processes read and write at most: wake-ups, their own statistics."""

WINDOW = 1.0
"""Seconds over which reading and writing count, if reports come sooner."""

_TICK = os.sysconf("SC_CLK_TCK")

# Fields of /proc/PID/stat, counted from the state on (proc(5) counts it as field 3).
_CPU, _THREADS = slice(11, 15), 17

_IO = (b"rchar", b"wchar", b"read_bytes")
"""Lines of /proc/PID/io; pages of files that are mapped are read from disks without a call."""


class Work(NamedTuple):
    """The work of a worker and its descendants since its start.

    Attributes:
        state: the kernel's letter for the worker itself, "" if it is gone.
        pids: its processes, itself first.
    """

    state: str
    cpu: float
    main: float
    waited: float
    moved: int
    pids: tuple[int, ...]


class Sampler(NodeService):
    """Reports the work of workers at regular times."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._interval = context.setup.task.sample
        self._links: Callable[[], tuple[LinkActivity, ...]] = tuple
        if context.setup.task.watch.slow:
            from ..elastic.node_links import links

            self._links = links
        self._idle: dict[int, Idle] = {}
        self._throttled = throttling.read()
        self._timer: Timer | None = None

    def started(self, _start: Start, group: WorkerGroup, /) -> None:
        """Send the first ACTIVITY now."""
        self._sample(group)

    def close(self) -> None:
        """Send nothing more."""
        if self._timer is not None:
            self._timer.cancel()

    def _sample(self, group: WorkerGroup) -> None:
        began, running = system.thread_time(), group.running()
        if running:
            counted = throttling.read()
            self._throttled = {**counted, **self._throttled}
            throttled = throttling.seconds(self._throttled, counted)
            rows = tuple(self._row(one, group.printed(one.spec.rank)) for one in running)
            activity = Activity(self.context.loop.clock(), throttled, rows, self._links())
            self.context.send(messages.pack(frames.ACTIVITY, activity))
        cost = system.thread_time() - began
        pause = max(self._interval, cost / SHARE)
        self._timer = self.context.loop.call_later(pause, partial(self._sample, group))

    def _row(self, worker: Process, printed: int) -> RankActivity:
        rank, pid, work = worker.spec.rank, worker.pid, work_of(worker.pid)
        idle = self._idle.setdefault(rank, Idle(2 * self._interval))
        seconds = idle.after(self.context.loop.clock(), work.cpu, work.moved, printed)
        traced = seconds > 0 and any(map(is_traced, work.pids))
        return RankActivity(
            rank=rank,
            pid=pid,
            state=work.state,
            cpu=round(work.cpu, 2),
            waited=round(work.waited, 3),
            moved=work.moved,
            printed=printed,
            idle=round(seconds, 2),
            traced=traced,
            main=round(work.main, 3),
        )


class Idle:
    """The time for which a worker has been idle, from its total work."""

    def __init__(self, most: float) -> None:
        """Count at most `most` seconds for one interval: this process may have been stopped."""
        self._most = most
        self._last: tuple[float, float, int, int] | None = None
        self._moved = 0.0, 0  # when, and how much by then, at least WINDOW ago or when it last did
        self._seconds = 0.0

    def after(self, now: float, cpu: float, moved: int, printed: int) -> float:
        """Return the seconds at this time, given the sums so far."""
        before, self._last = self._last, (now, cpu, moved, printed)
        if before is None:
            self._moved = now, moved
            return 0.0
        seconds, (began, until_then) = now - before[0], self._moved
        idle = (
            abs(cpu - before[1]) <= max(LEAST, SHARE * seconds)
            and abs(moved - until_then) <= MOVED * max(now - began, WINDOW)
            and printed == before[3]
        )
        if not idle or now - began >= WINDOW:
            self._moved = now, moved
        self._seconds = self._seconds + min(seconds, self._most) if idle else 0.0
        return self._seconds


def work_of(pid: int) -> Work:
    """Return a worker's work; its processes that are gone count if it has reaped them."""
    state, cpu, moved, pids = "", 0, 0, []
    for one, fields in family(pid):
        state = state or fields[0]
        cpu += sum(map(int, fields[_CPU]))
        moved += _moved(one)
        pids.append(one)
    return Work(state, cpu / _TICK, *_main(pid), moved, tuple(pids))


def family(pid: int) -> Iterator[tuple[int, list[str]]]:
    """Yield a process and its descendants, up to `MOST_PROCESSES`, by pid and fields of stat."""
    waiting, seen = [pid], 0
    while waiting and seen < MOST_PROCESSES:
        one = waiting.pop(0)
        with suppress(OSError):  # it has ended
            fields = processes.stat(one)
            seen += 1
            yield one, fields
            waiting += _children(one, int(fields[_THREADS]))


def _children(pid: int, threads: int) -> Iterable[int]:
    """Return the children of all threads of a process; [] where the kernel keeps no such lists."""
    tasks = [str(pid)] if threads == 1 else system.listdir(f"/proc/{pid}/task")[:MOST_THREADS]
    return [
        int(one) for task in tasks for one in _read(f"/proc/{pid}/task/{task}/children").split()
    ]


def _moved(pid: int) -> int:
    rows = (line.split(b": ") for line in _read(f"/proc/{pid}/io").splitlines())
    return sum(int(row[1]) for row in rows if row[0] in _IO)


def _main(pid: int) -> tuple[float, float]:
    """Return the seconds for which a main thread ran, and was ready to (sched-stats.rst)."""
    words = _read(f"/proc/{pid}/schedstat").split()
    return (int(words[0]) / 1e9, int(words[1]) / 1e9) if len(words) > 1 else (0.0, 0.0)


def is_traced(pid: int) -> bool:
    """Return whether a debugger is attached to a process."""
    rows = (line.split() for line in lines_of(f"/proc/{pid}/status"))
    return any(row[:1] == ["TracerPid:"] and row[1:] != ["0"] for row in rows)


def _read(path: str) -> bytes:
    """Return a file's content, b"" if the file is gone or forbidden."""
    try:
        with system.open_file(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
