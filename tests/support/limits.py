"""How long tests wait for what happens in the end: a limit that only a hang can reach.

No test needs an idle machine. What has to come is awaited as an event, with this limit; that it
comes soon is a matter of `benchmarks/`. Where a slow way would lead to the same end as the fast one
that a test is about, the test makes the slow way longer than the limit (`--heartbeat_timeout`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HANG = 240.0
"""Seconds that nothing takes, but a hang, also with many busy processes beside it."""

NEVER = 10 * HANG
"""Seconds after which what a test excludes would happen: long after it has given up."""

_PAUSE = 0.003
"""Seconds between two looks."""


def wait_for(condition: Callable[[], object], what: str, seconds: float = HANG) -> None:
    """Return as soon as the condition holds.

    Raises:
        TimeoutError: naming what was awaited, after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(_PAUSE)
