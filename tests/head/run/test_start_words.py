"""What a run tells the user when it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.run.run_start import NO_DEVICES
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import OutputPolicy, WorkerPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.mark.parametrize(
    ("expected", "kind", "said"),
    [(True, "cpu", [NO_DEVICES]), (True, "cuda", []), (False, "cpu", [])],
)
def test_workers_without_devices_are_worth_a_line_where_some_were_expected(
    expected: bool, kind: str, said: list[str], fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(workers=WorkerPolicy(expects_devices=expected))
    job.ready(run, accelerator=kind)
    assert run.state.phase is RunPhase.RUNNING
    assert job.said() == said


@pytest.mark.parametrize("private", [True, False])
def test_where_private_log_files_are_is_said_before_the_start(
    private: bool, fleet_of: FleetOf
) -> None:
    job = fleet_of("n0", "n1")
    run = job.run(output=OutputPolicy(log_private=private))
    job.ready(run, log_dir="/tmp/logs")
    assert job.said() == (["n0, n1: log files in /tmp/logs"] if private else [])
