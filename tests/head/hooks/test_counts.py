"""What is counted in a run."""

from __future__ import annotations

from dsrun.launcher.head.hooks.counts import Counts
from dsrun.launcher.head.run.events import (
    RESULT,
    JobEnded,
    JobStarted,
    NodeLost,
    RankExit,
    RankOutput,
    RoundBegan,
)


def test_a_job_without_rounds() -> None:
    now = [10.0]
    counts = Counts(lambda: now[0])
    assert (counts.rounds, counts.code) == (0, None)
    counts.on_event(JobStarted("job", 2, ("n0",), ("n0", 29500)))
    counts.on_event(RankOutput(1, "n0", 1, b"abc"))
    now[0] = 12.0
    counts.on_event(RankOutput(1, "n0", 2, b"de"))
    counts.on_event(RankOutput(0, "n0", RESULT, b"\0"))
    counts.on_event(RankExit(0, "n0", 7, 0, False, ""))
    counts.on_event(RankExit(1, "n0", 8, 3, False, ""))
    counts.on_event(JobEnded("job", 3))
    assert (counts.rounds, counts.restarts, counts.lost, counts.code) == (1, 0, 0, 3)
    assert counts.printed == {(1, "stdout"): 3, (1, "stderr"): 2}
    assert (counts.hosts, counts.newest) == ({1: "n0"}, {1: 12.0})
    assert counts.ended == {"ended": 1, "failed": 1}


def test_another_round_has_other_ranks() -> None:
    counts = Counts(lambda: 0.0)
    counts.on_event(JobStarted("job", 2, ("n0", "n1"), ("n0", 29500)))
    counts.on_event(NodeLost("n1", "gone", survived=True))
    counts.on_event(RankExit(0, "n0", 7, -15, True, ""))
    assert counts.ended == {"stopped": 1}
    counts.on_event(RoundBegan(2, 1, 1, ("n0",)))
    assert (counts.rounds, counts.restarts, counts.lost, counts.ended) == (2, 1, 1, {})
