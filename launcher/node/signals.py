"""Signals as they reach a node, and whether the workers have got them already.

A scheduler's signal may reach the guard alone, which is what the scheduler has started (Slurm with
proctrack/cgroup, mpirun), or every process below it, workers included (Slurm with
proctrack/linuxproc). In the first case the workers must be told, in the second they must not be
told again. The node launcher is in a session of its own, so what reaches both it and the guard has
reached all. The runner may have got the same signal, and ask for it to be passed on as well.
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
"""Seconds for which a signal that has reached everybody is the same one, if it comes once more."""


class SignalDeduplicator:
    """Takes signals as they come, and acts on each once."""

    def __init__(self, loop: Loop, act: Callable[[int, bool], None]) -> None:
        """Call `act` with a signal, and whether the workers have got it, once that is known."""
        self._loop = loop
        self._act = act
        self._ways: dict[int, set[Way]] = {}
        self._timers: dict[int, Timer] = {}
        self._everywhere: dict[int, float] = {}

    def came(self, number: int, way: Way) -> None:
        """Note that a signal has reached the guard, or this process itself."""
        if number not in self._ways:
            self._ways[number] = set()
            self._timers[number] = self._loop.call_later(TOGETHER, lambda: self._judge(number))
        self._ways[number].add(way)

    def everywhere(self, number: int) -> bool:
        """Return whether the workers have got this signal from somebody else just now."""
        at = self._everywhere.get(number)
        return at is not None and self._loop.clock() - at < RECENT

    def settle(self) -> None:
        """Act now on what has come, and forget it: workers that start now have got no signal."""
        for number in tuple(self._ways):
            self._timers[number].cancel()
            self._judge(number)
        self._everywhere.clear()

    def _judge(self, number: int) -> None:
        del self._timers[number]
        both = len(self._ways.pop(number)) == 2
        if both:
            self._everywhere[number] = self._loop.clock()
        self._act(number, both)
