"""Signals that reach a node, and whether the workers have received them already.

A scheduler's signal may reach only the guard, which is the process that the scheduler started
(Slurm with proctrack/cgroup, mpirun). Then the node launcher must pass it to the workers. Or it may
reach every process below the guard, including the workers (Slurm with proctrack/linuxproc). Then it
must not be passed again. The node launcher has its own session: a signal that reaches both it and
the guard has reached all processes, except perhaps workers that were just being started. The runner
may get the signal as well, and ask to pass it on.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from ...common.loop import Loop, Timer

    Way = Literal["guard", "launcher"]

TOGETHER = 0.25
"""Seconds within which one signal reaches all processes of a node, even on a busy machine. Slurm
sends some signals twice, two milliseconds apart."""

YOUNG = 0.01
"""Age in seconds below which workers may have missed a signal: they were not listed yet."""

RECENT = 2.0
"""Seconds within which a signal that arrives by another way counts as one signal."""


class _ReceivedSignal:
    """A received signal, which may still arrive by other ways.

    Attributes:
        acted_at: the time of action; None before.
    """

    def __init__(self, timer: Timer, *, missed: bool) -> None:
        self.ways: set[Way] = set()
        self.acted_at: float | None = None
        self.timer = timer
        self._missed = missed

    @property
    def reached_all(self) -> bool:
        """True if the workers have received it as well."""
        return len(self.ways) == 2 and not self._missed


class SignalDeduplicator:
    """Acts once on each signal, even if the signal arrives by several ways."""

    def __init__(self, loop: Loop, act: Callable[[int, bool], None]) -> None:
        """Create; `act` gets each signal, once it is clear whether the workers received it."""
        self._loop = loop
        self._act = act
        self._received: dict[int, _ReceivedSignal] = {}
        self._young_until = 0.0

    def received(self, number: int, way: Way) -> None:
        """Record that a signal has reached the guard, or this process itself."""
        one = self._recent(number)
        if one is None or (one.acted_at is not None and way in one.ways):
            self._received[number] = one = self._new(number)
        one.ways.add(way)

    def _new(self, number: int) -> _ReceivedSignal:
        timer = self._loop.call_later(TOGETHER, lambda: self._decide(number))
        return _ReceivedSignal(timer, missed=self._loop.clock() < self._young_until)

    def _recent(self, number: int) -> _ReceivedSignal | None:
        one = self._received.get(number)
        at = None if one is None else one.acted_at
        return None if at is not None and self._loop.clock() - at >= RECENT else one

    def reached_workers(self, number: int) -> bool:
        """Return whether the workers have just received this signal from outside."""
        one = self._recent(number)
        return one is not None and one.acted_at is not None and one.reached_all

    def undecided(self, number: int) -> bool:
        """Return whether this signal has arrived, but not yet whether the workers received it."""
        return number in self.all_undecided()

    def all_undecided(self) -> list[int]:
        """Return the signals that have arrived, but may or may not have reached the workers."""
        return [number for number, one in self._received.items() if one.acted_at is None]

    def handled(self, number: int) -> bool:
        """Return whether this signal has just arrived from outside, and needs no forwarding."""
        return self._recent(number) is not None

    def flush(self) -> None:
        """Act on all signals so far and forget them: workers that start now have received none."""
        for number in self.all_undecided():
            self._decide(number)
        self._received.clear()

    def started(self) -> None:
        """Record a start of workers, which may miss a signal that arrives now."""
        self._young_until = self._loop.clock() + YOUNG

    def _decide(self, number: int) -> None:
        one = self._received[number]
        one.timer.cancel()
        one.acted_at = self._loop.clock()
        self._act(number, one.reached_all)
