"""The time limits of a job's waits for nodes: for enough nodes, and for more nodes."""

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
        """Call `over` when the time is up; only another round restarts the time."""
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
            text = f"{counted(have, 'node')} left, but a round needs at least {least}"
            self._warn(f"{text}: waiting {wait:g} s for more")
            self._timer = self._timers.call_later(wait, self._deadline)
        return self._timer is not None and not self._over

    @property
    def can_wait(self) -> bool:
        """True if there is, or would be, time to wait."""
        return bool(self._limits.wait) and not self._over

    def _deadline(self) -> None:
        self._over = True
        self._tell()

    def cancel(self) -> None:
        """Stop waiting: there is a round."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._over = False


class LostTogether:
    """Waits for nodes that were lost with the last members of a round, once a member has returned.

    Otherwise each node would start a separate round, and restart the earlier nodes.
    """

    def __init__(
        self,
        timers: Timers,
        seconds: float,
        over: Callable[[], None],
        warn: Callable[[str], None],
    ) -> None:
        """Call `over` when the time is up; losses `seconds` before the last loss do not count."""
        self._timers = timers
        self._seconds = seconds
        self._over = over
        self._warn = warn
        self._lost: dict[int, float] = {}
        self._since: float | None = None
        self._timer: Timer | None = None

    def lost(self, node: int, *, last: bool) -> None:
        """Note the loss of a node, which may be the last member of the round."""
        now = self._timers.clock()
        self._lost[node] = now
        if last:
            self._since = now - self._seconds

    def found(self, node: int) -> None:
        """Stop waiting for a node: it has returned, or is not wanted any longer."""
        self._lost.pop(node, None)

    def wait(self, room: int) -> bool:
        """Wait for nodes, if there is room for more; return whether there is time for that."""
        since = self._since
        missing = 0 if since is None else sum(at >= since for at in self._lost.values())
        if not missing or room <= 0:
            return False
        if self._timer is None:
            text = f"waiting {self._seconds:g} s for {missing} more to return"
            self._warn(f"all nodes of the round were lost: {text}")
            self._timer = self._timers.call_later(self._seconds, self._deadline)
        return True

    def _deadline(self) -> None:
        self.cancel()
        self._over()

    def cancel(self) -> None:
        """Stop waiting: there is a round, or the time is over."""
        self._since = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ScaleUpDelay:
    """Runs from the start of each round until its workers count as well started.

    They do when one of them has printed something, or after `seconds`.
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
        """Seconds until the end of the delay; 0 after it."""
        return max(0.0, self._until - self._timers.clock())

    @property
    def awaited(self) -> bool:
        """True if something waits for the end of the delay."""
        return self._timer is not None

    def start(self) -> None:
        """Start again: there is another round."""
        self._cancel()
        self._until = self._timers.clock() + self._seconds

    def wait(self, nodes: int) -> None:
        """Call `over` at the end of the delay, when a round of this number of nodes can begin."""
        if self._timer is None:
            when = f"in {self.left:.0f} s, or when a worker prints something"
            self._warn(f"a round of {counted(nodes, 'node')} begins {when} (--gain_delay)")
            self._timer = self._timers.call_later(self.left, self.finish)

    def finish(self) -> None:
        """Cancel the delay: its time is over, or a worker has printed something."""
        awaited = self.awaited
        self._until = 0.0
        self._cancel()
        if awaited:
            self._over()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
