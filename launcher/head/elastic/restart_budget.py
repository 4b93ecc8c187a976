"""How many failures an elastic job survives, and how long it waits after each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.policies import ElasticPolicy

LONGEST = 60.0
"""Longest delay between a failure and the next round, in seconds. The first restart is not delayed,
the second by 1 s, and each further one by twice as long as the one before."""


class RestartBudget:
    """The restarts of one job.

    Attributes:
        restarts: how many there have been in the whole job.
    """

    def __init__(self, limits: ElasticPolicy, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._times: list[float] = []
        self.restarts = 0

    def spend(self, code: int, lasted: float) -> bool:
        """Spend a restart on a round that has failed, if there is one left and it is worth it.

        Args:
            code: the failed worker's exit code.
            lasted: seconds since the round began.
        """
        limits, recent = self._limits, self._recent()
        early = lasted < limits.uptime
        if early or code in limits.final or len(recent) >= limits.restarts:
            return False
        self._times = [*recent, self._clock()]
        self.restarts += 1
        return True

    def refund(self) -> None:
        """Take the last restart back: its cause was not a failure."""
        self._times.pop()
        self.restarts -= 1

    @property
    def delay(self) -> float:
        """Seconds to wait before the round that the last restart is for."""
        spent = len(self._recent())
        return min(LONGEST, 2.0 ** (spent - 2)) if spent > 1 else 0.0

    @property
    def count(self) -> str:
        """How much of the budget is spent, as in `1/3`."""
        return f"{len(self._recent())}/{self._limits.restarts}"

    def _recent(self) -> list[float]:
        """Return the times of the restarts that count now."""
        window = self._limits.window
        since = self._clock() - window if window else 0.0
        return [time for time in self._times if time >= since]
