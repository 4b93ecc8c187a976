"""The retries of a host that refused for the moment."""

from __future__ import annotations

import random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 30.0
"""Seconds until the runner gives up a host that keeps dropping connections."""


class Retries:
    """Counts the attempts for one host, or for several that are tried together.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock()
        self._attempts = 0

    def left(self) -> bool:
        """Return whether there is time for another attempt."""
        return self._clock() - self._began < LIMIT

    def pause(self) -> float:
        """Count another attempt; return the seconds to wait before it."""
        self._attempts += 1
        return pause(self._attempts - 1)


def pause(attempt: int) -> float:
    """Return the seconds to wait after an attempt: they grow, and are spread at random.

    sshd drops connections at random above MaxStartups (sshd_config(5)); clients that connected
    together must not retry together.
    """
    longest: float = min(2.0, 0.1 * 2.0**attempt)
    return longest * random.uniform(0.5, 1.5)
