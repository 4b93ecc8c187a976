"""Signals that reach a node, and whether the workers have already got them.

A scheduler's signal may reach only the guard, which is the process that the scheduler has started
(Slurm with proctrack/cgroup, mpirun), or every process below it, including the workers (Slurm with
proctrack/linuxproc). In the first case it must be passed to the workers, in the second it must not
be passed again. The node launcher has its own session, so a signal that reaches both it and the
guard has reached all processes, but for workers that were just being started. The runner may get
the same signal and ask to pass it on as well.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from ..common.loop import Loop, Timer

    Way = Literal["guard", "launcher"]

TOGETHER = 0.05
"""Seconds within which one signal reaches all processes of a node."""

RECENT = 2.0
"""Seconds for which a signal that has reached all processes is the same one if it comes again."""


class SignalDeduplicator:
    """Acts once on each signal, even if it comes in several ways."""

    def __init__(self, loop: Loop, act: Callable[[int, bool], None]) -> None:
        """Call `act` with each signal, and whether the workers have got it, once that is known."""
        self._loop = loop
        self._act = act
        self._ways: dict[int, set[Way]] = {}
        self._young_until = 0.0
        self._too_young: dict[int, bool] = {}
        self._timers: dict[int, Timer] = {}
        self._reached: dict[int, float] = {}

    def received(self, number: int, way: Way) -> None:
        """Record that a signal has reached the guard, or this process itself."""
        if number not in self._ways:
            self._ways[number] = set()
            self._too_young[number] = self._loop.clock() < self._young_until
            self._timers[number] = self._loop.call_later(TOGETHER, lambda: self._decide(number))
        self._ways[number].add(way)

    def reached_workers(self, number: int) -> bool:
        """Return whether the workers have just got this signal from outside."""
        at = self._reached.get(number)
        return at is not None and self._loop.clock() - at < RECENT

    def settle(self) -> None:
        """Act now on all signals so far and forget them: workers that start now have got none."""
        for number in tuple(self._ways):
            self._timers[number].cancel()
            self._decide(number)
        self._reached.clear()

    def started(self) -> None:
        """Record that workers were started: a signal that comes now may have missed them."""
        self._young_until = self._loop.clock() + TOGETHER

    def _decide(self, number: int) -> None:
        del self._timers[number]
        ways, missed = self._ways.pop(number), self._too_young.pop(number)
        both = len(ways) == 2 and not missed
        if both:
            self._reached[number] = self._loop.clock()
        self._act(number, both)
