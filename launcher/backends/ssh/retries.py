"""When to try a host again that refused for the moment."""

from __future__ import annotations

import random

LIMIT = 30.0
"""Seconds after which a host that keeps dropping connections is given up."""


def pause(attempt: int) -> float:
    """Return seconds to wait before try number `attempt` + 1, growing and spread at random.

    sshd drops connections at random above MaxStartups (sshd_config(5)); clients that came
    together must not come back together.
    """
    longest: float = min(2.0, 0.1 * 2.0**attempt)
    return longest * random.uniform(0.5, 1.5)
