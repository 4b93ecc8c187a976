"""What is counted in a run."""

from __future__ import annotations

from dsrun.launcher.common.errors import Fault
from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.features.hooks.runner_metrics import Counts
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.run.events import (
    RESULT,
    Alarm,
    AlarmOver,
    Exit,
    JobEnded,
    Lost,
    RankOutput,
    RanksActive,
    Round,
    Started,
)


def test_a_job_without_rounds() -> None:
    now = [10.0]
    counts = Counts(lambda: now[0])
    assert (counts.rounds, counts.code) == (0, None)
    counts.on_event(Started("job", 2, ("n0",), ("n0", 29500)))
    counts.on_event(RankOutput(1, "n0", 1, b"abc"))
    now[0] = 12.0
    counts.on_event(RankOutput(1, "n0", 2, b"de"))
    counts.on_event(RankOutput(0, "n0", RESULT, b"\0"))
    counts.on_event(Exit(0, "n0", 7, 0, False, ""))
    counts.on_event(Exit(1, "n0", 8, 3, False, ""))
    counts.on_event(JobEnded(Ending("job", Fault(""))))
    assert (counts.rounds, counts.restarts, counts.lost, counts.code) == (1, 0, 0, 70)
    assert counts.printed == {(1, "stdout"): 3, (1, "stderr"): 2}
    assert (counts.hosts, counts.newest) == ({1: "n0"}, {1: 12.0})
    assert counts.ended == {"ended": 1, "failed": 1}


def test_another_round_has_other_ranks() -> None:
    counts = Counts(lambda: 0.0)
    counts.on_event(Started("job", 2, ("n0", "n1"), ("n0", 29500)))
    counts.on_event(Lost("n1", "gone", survived=True))
    counts.on_event(Exit(0, "n0", 7, -15, True, ""))
    assert counts.ended == {"stopped": 1}
    counts.on_event(Round(2, 1, 1, ("n0",)))
    assert (counts.rounds, counts.restarts, counts.lost, counts.ended) == (2, 1, 1, {})


def test_what_is_wrong_and_who_does_nothing() -> None:
    counts = Counts(lambda: 0.0)
    row = RankActivity(3, 33, "S", 1.0, 0.0, 0, 0, 7.5, traced=False)
    counts.on_event(RanksActive("n1", Activity(1.0, 0.0, (row,))))
    counts.on_event(Alarm("hang", "report", "rank 3 sleeps"))
    counts.on_event(Alarm("rule", "report", "no line"))
    counts.on_event(AlarmOver("hang", "rank 3 goes on"))
    assert counts.idle == {(3, "n1"): 7.5}
    assert (counts.alarms, counts.wrong) == ({"hang": 1, "rule": 1}, {"rule"})
    counts.on_event(Round(2, 1, 1, ("n0",)))
    assert (counts.idle, counts.wrong, counts.alarms["hang"]) == ({}, set(), 1)
