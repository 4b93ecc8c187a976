"""The events of a job as JSON, and their schema."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.hooks.runner_event_json import event_json
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    Alarm,
    AlarmOver,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    Round,
    Started,
)

from ...support import schemas
from ...support.reports import report


@pytest.mark.parametrize(
    ("event", "name", "some"),
    [
        (Started("job", 2, ("n0",), ("n0", 29500)), "start", {"hosts": ["n0"]}),
        (Exit(1, "n0", 77, -9, False, "why"), "failure", {"exit_code": 137, "hint": "why"}),
        (Round(2, 1, 2, ("n0",)), "restart", {"round": 2, "restarts": 1}),
        (Lost("n0", "gone", survived=True), "lost", {"goes_on": True}),
        (Alarm("hang", "stop", "rank 0 sleeps"), "hang", {"then": "stop"}),
        (AlarmOver("hang", "rank 0 goes on"), "over", {"kind": "hang"}),
        (JobEnded(Ending("job", report())), "end", {"exit_code": 0, "error": ""}),
    ],
)
def test_events_are_as_their_schema_says(event: Any, name: str, some: dict[str, Any]) -> None:
    fields = event_json(event, "job", 1.25)
    assert fields is not None
    assert (fields["event"], fields["job_id"], fields["seconds"]) == (name, "job", 1.25)
    assert some.items() <= fields.items()
    told = {**fields, "time": 1.5, "left_out": 0}
    assert schemas.faults("event", told) == []
    assert schemas.faults("event", {**told, "more": 1}) != []


@pytest.mark.parametrize(
    "event",
    [
        Exit(1, "n0", 77, 0, False, ""),
        Exit(1, "n0", 77, -15, True, ""),
        Round(1, 0, 2, ("n0",)),
        RankOutput(0, "n0", 1, b"x"),
    ],
)
def test_the_others_are_not_told(event: Any) -> None:
    assert event_json(event, "job", 1.25) is None


def test_the_end_of_a_job_that_did_not_start_has_the_reason() -> None:
    ending = Ending("job", NodeError("n0: no python"))
    fields = event_json(JobEnded(ending), "job", 1.25)
    assert fields is not None
    assert (fields["error"], fields["report"]) == ("n0: no python", None)
    assert schemas.faults("event", {**fields, "time": 1.5, "left_out": 0}) == []
