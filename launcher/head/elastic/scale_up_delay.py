"""How long nodes that could join wait for the present round: each new round costs a start."""

from __future__ import annotations

from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Timer, Timers


class ScaleUpDelay:
    """Runs from the start of each round until its workers are known to have started well.

    That is so when one of them has printed something, or after `seconds`.
    """

    def __init__(
        self,
        timers: Timers,
        seconds: float,
        over: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Call `over` at the end of a delay that something waits for."""
        self._timers = timers
        self._seconds = seconds
        self._over = over
        self._warn = warn
        self._until = 0.0
        self._timer: Timer | None = None

    @property
    def left(self) -> float:
        """Seconds until it is over, 0 if it is."""
        return max(0.0, self._until - self._timers.clock())

    @property
    def awaited(self) -> bool:
        """Whether something waits for its end."""
        return self._timer is not None

    def begin(self) -> None:
        """Begin anew: there is another round."""
        self._cancel()
        self._until = self._timers.clock() + self._seconds

    def wait(self, nodes: int) -> None:
        """Call `over` at its end, when a round of so many nodes can begin."""
        if self._timer is None:
            when = f"in {self.left:.0f} s, or when a worker prints something"
            self._warn(f"a round of {counted(nodes, 'node')} begins {when} (--gain_delay)")
            self._timer = self._timers.call_later(self.left, self.end)

    def end(self) -> None:
        """End it: its time is over, or a worker has printed something."""
        awaited = self.awaited
        self._until = 0.0
        self._cancel()
        if awaited:
            self._over()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
