"""What observers of a run are told, and that a run without any makes no events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.head.job.ending import ending_of
from dsrun.launcher.head.run.events import (
    CheckWarning,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    RanksStarted,
    Round,
    Started,
    as_json,
    from_json,
)
from dsrun.launcher.head.run.run_state import RunState

from ...support.elastic_run import Job, started

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.run.events import RunEvent

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]

MASTER = ("n0", 29500)


def test_observers_see_a_run_from_start_to_end(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.prepare()
    seen: list[RunEvent] = []
    also: list[RunEvent] = []
    run.observe(seen.append)
    run.observe(also.append)
    run.start()
    job.step()
    job.ready(run)
    assert seen == [Started("job", 4, ("n0", "n1"), MASTER)]
    job.node("n0").beats()
    job.step()
    job.up("n1", 2, 3)
    job.node("n1").says(frames.pack_output(3, 2, b"oops"))
    job.node("n1").exits(3, 7)
    job.step()
    job.node("n1").exits(2, -15, told=True)
    job.step()
    run.handle(RunState.finish)
    assert run.state.observers is not None
    run.state.observers.ended(ending_of(run.view()))
    assert seen[1] == RanksStarted("n1", (2, 3))
    assert seen[2:4] == [RankOutput(3, "n1", 2, b"oops"), Exit(3, "n1", 4003, 7, False, "")]
    assert seen[4] == Exit(2, "n1", 4002, -15, True, "")
    assert isinstance(seen[5], JobEnded)
    assert (seen[5].ending.job_id, seen[5].ending.code) == ("job", 7)
    assert also == seen


def test_the_loss_of_a_node_says_whether_the_job_goes_on(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    seen: list[RunEvent] = []
    run.observe(seen.append)
    job.node("n1").leaves()
    job.step()
    assert seen == [Lost("n1", run.state.nodes[1].lost, False)]


def test_rounds_of_an_elastic_job(fleet_of: FleetOf) -> None:
    job: Job = started(fleet_of("n0", "n1"))
    seen: list[RunEvent] = []
    job.run.observe(seen.append)
    job.lose("n1")
    job.join("n0")
    assert seen == [
        Lost("n1", job.run.state.nodes[1].lost, True),
        *(Exit(rank, "n0", 4000 + rank, -15, True, "") for rank in (0, 1)),
        Round(2, 0, 2, ("n0",)),
    ]


def test_a_run_without_observers_has_nobody_to_tell(fleet_of: FleetOf) -> None:
    job = fleet_of("n0", "n1")
    run = job.start()
    job.node("n1").says(frames.pack_output(3, 1, b"fine"))
    job.end_well(run)
    assert run.state.observers is None
    assert run.output.observers is None
    assert ending_of(run.view()).code == 0


@pytest.mark.parametrize(
    "event",
    [
        Started("j", 4, ("n0", "n1"), MASTER),
        RanksStarted("n1", (2, 3)),
        Exit(3, "n1", 4003, 7, False, "a hint"),
        Lost("n1", "no power", survived=True),
        Round(2, 1, 4, ("n0",)),
        CheckWarning("n1: its clock is 9 s late"),
    ],
)
def test_what_is_kept_is_the_same_in_json(event: RunEvent) -> None:
    told = json.loads(json.dumps(as_json(event)))
    assert from_json(told) == event


@pytest.mark.parametrize("told", [{}, {"event": "Unknown"}, {"event": "Lost", "host": 1}])
def test_what_is_no_event_of_this_version_is_none(told: dict[str, Any]) -> None:
    assert from_json(told) is None
