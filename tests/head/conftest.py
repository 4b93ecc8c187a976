"""Fleets that a test plays; see `tests/support/fake_fleet.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..support.fake_fleet import FakeFleet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.specs.host import Host


@pytest.fixture
def fleet_of() -> Iterator[Callable[..., FakeFleet]]:
    """Make fleets of these hosts; all are closed at the end of the test."""
    made: list[FakeFleet] = []

    def make(
        *hosts: Host | str, lease: float = 15.0, connect: bool = True, shares: bool = False
    ) -> FakeFleet:
        made.append(FakeFleet(*hosts, lease=lease, shares=shares))
        if connect:
            made[-1].connect()
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()
