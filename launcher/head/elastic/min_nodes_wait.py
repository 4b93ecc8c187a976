"""How long a job waits for more nodes while there are too few for a round (--min_wait)."""

from __future__ import annotations

from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Timer, Timers
    from ...specs.policies import ElasticPolicy


class MinNodesWait:
    """Waits once until there is a round."""

    def __init__(
        self,
        timers: Timers,
        limits: ElasticPolicy,
        warn: Callable[[str], None],
        over: Callable[[], None],
    ) -> None:
        """Call `over` at the end of the time; there is no more of it before there was a round."""
        self._timers = timers
        self._limits = limits
        self._warn = warn
        self._tell = over
        self._timer: Timer | None = None
        self._over = False

    def wait(self, have: int) -> bool:
        """Wait for more than these nodes; return whether there is time for that."""
        least, wait = self._limits.least, self._limits.wait
        if wait and self._timer is None:
            text = f"{counted(have, 'node')} left for a round of at least {least}"
            self._warn(f"{text}: waiting {wait:g} s for more")
            self._timer = self._timers.call_later(wait, self._end_time)
        return self._timer is not None and not self._over

    def _end_time(self) -> None:
        self._over = True
        self._tell()

    def end(self) -> None:
        """Stop waiting: there is a round."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._over = False
