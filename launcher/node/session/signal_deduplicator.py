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

    from ...common.loop import Loop, Timer

    Way = Literal["guard", "launcher"]

TOGETHER = 0.25
"""Seconds within which one signal reaches all processes of a node, on a busy machine too. Slurm
sends some twice, two milliseconds apart."""

YOUNG = 0.01
"""Seconds after their start for which workers may have been missed: they were not listed yet."""

RECENT = 2.0
"""Seconds for which a signal that comes in another way is still the same one."""


class _ReceivedSignal:
    """A signal that has come, and maybe will come in other ways, too.

    Attributes:
        ways: in which it has come.
        acted_at: when it was acted on; None before.
    """

    def __init__(self, timer: Timer, *, missed: bool) -> None:
        self.ways: set[Way] = set()
        self.acted_at: float | None = None
        self.timer = timer
        self._missed = missed

    @property
    def reached_all(self) -> bool:
        """Whether the workers have got it as well."""
        return len(self.ways) == 2 and not self._missed


class SignalDeduplicator:
    """Acts once on each signal, even if it comes in several ways."""

    def __init__(self, loop: Loop, act: Callable[[int, bool], None]) -> None:
        """Call `act` with each signal, and whether the workers have got it, once that is known."""
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
        """Return whether the workers have just got this signal from outside."""
        one = self._recent(number)
        return one is not None and one.acted_at is not None and one.reached_all

    def undecided(self, number: int) -> bool:
        """Return whether this signal has come, and it is not known yet where."""
        return number in self.all_undecided()

    def all_undecided(self) -> list[int]:
        """Return the signals that have come, and of which it is not known yet where."""
        return [number for number, one in self._received.items() if one.acted_at is None]

    def handled(self, number: int) -> bool:
        """Return whether this signal has just come from outside: the workers get it, or have."""
        return self._recent(number) is not None

    def settle(self) -> None:
        """Act now on all signals so far and forget them: workers that start now have got none."""
        for number in self.all_undecided():
            self._decide(number)
        self._received.clear()

    def started(self) -> None:
        """Record that workers were started: a signal that comes now may have missed them."""
        self._young_until = self._loop.clock() + YOUNG

    def _decide(self, number: int) -> None:
        one = self._received[number]
        one.timer.cancel()
        one.acted_at = self._loop.clock()
        self._act(number, one.reached_all)
