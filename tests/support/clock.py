"""Time for tests that do not wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.common.loop import Loop, Timers

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """A clock that goes when told, a loop on it, and timers that no loop has.

    Attributes:
        step: the seconds by which it goes on whenever it is read, as a real one does.
    """

    def __init__(self) -> None:
        self.now = 50.0
        self.step = 0.0
        self.loop = Loop(self._read)
        self.timers = Timers(self._read)

    def _read(self) -> float:
        self.now += self.step
        return self.now

    def settle(self) -> None:
        """Have all happen that can without time: what is read may lead to more."""
        for _ in range(8):
            self.go(0.0)

    def go(self, seconds: float) -> None:
        """Let time pass, and what is due by then happen."""
        self.now += seconds
        self.loop.call_later(0.0, self.loop.stop)
        self.loop.run()
        while (call := self.timers.expired(self.now)) is not None:
            call()


class Pauses:
    """In place of `time` in a module that sleeps: this time goes by sleeping alone.

    Attributes:
        on_sleep: called whenever the module has slept.
    """

    def __init__(self) -> None:
        self.now = 50.0
        self.on_sleep: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.on_sleep()
