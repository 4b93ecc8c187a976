"""How many failures an elastic job survives, and how long it waits after each."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.elastic_policy import ElasticPolicy

LONGEST = 60.0
"""Seconds at most between a failure and the next round. The first restart waits for nothing, the
second for 1 s, and each one for twice as long as the one before it."""


class RestartBudget:
    """The restarts of one job.

    Attributes:
        restarts: how many there have been, whenever that was.
    """

    def __init__(self, limits: ElasticPolicy, clock: Callable[[], float]) -> None:
        self._limits = limits
        self._clock = clock
        self._times: list[float] = []
        self.restarts = 0

    def spend(self, code: int, lasted: float) -> bool:
        """Take a restart for a round that has failed, if there is one left and it is worth it.

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
        """Take the last restart back: it was no failure that made it necessary."""
        self._times.pop()
        self.restarts -= 1

    @property
    def delay(self) -> float:
        """Seconds to wait before the round that the last restart is for."""
        spent = len(self._recent())
        return min(LONGEST, 2.0 ** (spent - 2)) if spent > 1 else 0.0

    @property
    def count(self) -> str:
        """How much of it is spent: `1/3`."""
        return f"{len(self._recent())}/{self._limits.restarts}"

    def _recent(self) -> list[float]:
        """When the restarts were that count."""
        window = self._limits.window
        since = self._clock() - window if window else 0.0
        return [time for time in self._times if time >= since]
