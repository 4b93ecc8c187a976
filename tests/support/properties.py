"""How property tests are run: the same examples each time, however busy the machine is."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

same_examples = settings(
    derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
"""Decorates each property test, below `given`."""
