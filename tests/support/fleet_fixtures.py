"""Fleets that a test plays; see `tests/support/fake_fleet.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .asked_run import AskedRun, new_job_id
from .fake_fleet import FakeFleet

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


@pytest.fixture
def asked(fleet_of: Callable[..., FakeFleet]) -> Iterator[Callable[..., AskedRun]]:
    """Start runs that can be asked, on new fleets of some hosts; or begin them without a start."""
    made: list[AskedRun] = []

    def make(*hosts: Host | str, started: bool = True, **more: Any) -> AskedRun:
        fleet = fleet_of(*hosts)
        # The socket observes from the beginning, as that of a runner does.
        run = fleet.prepare(**{"job_id": new_job_id()} | more)
        made.append(AskedRun(fleet, run))
        run.start()
        fleet.step()
        if started:
            fleet.begin_workers(run)
        return made[-1]

    yield make
    for one in made:
        one.close()
