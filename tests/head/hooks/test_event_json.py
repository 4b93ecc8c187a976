"""The events of a job as JSON, and their schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.head.hooks.event_json import event_json
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    Alarm,
    AlarmOver,
    JobEnded,
    JobStarted,
    NodeLost,
    RankExit,
    RankOutput,
    RoundBegan,
)

from ...support import schemas
from ...support.reports import report

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.mark.parametrize(
    ("event", "name", "some"),
    [
        (JobStarted("job", 2, ("n0",), ("n0", 29500)), "start", {"hosts": ["n0"]}),
        (RankExit(1, "n0", 77, -9, False, "why"), "failure", {"exit_code": 137, "hint": "why"}),
        (RoundBegan(2, 1, 2, ("n0",)), "restart", {"round": 2, "restarts": 1}),
        (NodeLost("n0", "gone", survived=True), "lost", {"goes_on": True}),
        (Alarm("hang", "stop", "rank 0 sleeps"), "hang", {"then": "stop"}),
        (AlarmOver("hang", "rank 0 goes on"), "over", {"kind": "hang"}),
        (JobEnded(Ending("job", report())), "end", {"exit_code": 0, "error": ""}),
    ],
)
def test_events_are_as_their_schema_says(
    fleet_of: FleetOf, event: Any, name: str, some: dict[str, Any]
) -> None:
    run = fleet_of("n0").start()
    fields = event_json(event, run)
    assert fields is not None
    assert (fields["event"], fields["job_id"]) == (name, "job")
    assert some.items() <= fields.items()
    told = {**fields, "time": 1.5, "left_out": 0}
    assert schemas.faults("event", told) == []
    assert schemas.faults("event", {**told, "more": 1}) != []


@pytest.mark.parametrize(
    "event",
    [
        RankExit(1, "n0", 77, 0, False, ""),
        RankExit(1, "n0", 77, -15, True, ""),
        RoundBegan(1, 0, 2, ("n0",)),
        RankOutput(0, "n0", 1, b"x"),
    ],
)
def test_the_others_are_not_told(fleet_of: FleetOf, event: Any) -> None:
    assert event_json(event, fleet_of("n0").start()) is None


def test_the_end_of_a_job_that_did_not_start_has_the_reason(fleet_of: FleetOf) -> None:
    ending = Ending("job", NodeError("n0: no python"))
    fields = event_json(JobEnded(ending), fleet_of("n0").start())
    assert fields is not None
    assert (fields["error"], fields["report"]) == ("n0: no python", None)
    assert schemas.faults("event", {**fields, "time": 1.5, "left_out": 0}) == []
