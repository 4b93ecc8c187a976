"""What is kept of a run for those who ask about it."""

from __future__ import annotations

from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.features.jobs.runner_socket import RunHistory
from dsrun.launcher.head.run.events import (
    RESULT,
    Exit,
    RankOutput,
    RanksActive,
    Round,
    Started,
)

from ...support.clock import Clock


def test_output_goes_to_the_tail_and_to_followers() -> None:
    seen, followed = RunHistory(Clock().loop.clock), []
    seen.on_event(RankOutput(1, "n0", 2, b"early\n"))
    seen.followers.append(lambda *block: followed.append(block))
    seen.on_event(RankOutput(0, "n0", 1, b"late\n"))
    seen.on_event(RankOutput(0, "n0", RESULT, b"\0\1"))
    assert followed == [(0, "n0", 1, b"late\n")]
    assert list(seen.tail.blocks()) == [(1, 2, b"early\n"), (0, 1, b"late\n")]


def test_a_follower_may_leave_while_it_is_told() -> None:
    seen, told = RunHistory(Clock().loop.clock), []

    def leave(*block: object) -> None:
        told.append(block)
        seen.followers.remove(leave)

    seen.followers += [leave, lambda *block: told.append(block)]
    seen.on_event(RankOutput(0, "n0", 1, b"x"))
    assert len(told) == 2
    assert len(seen.followers) == 1


def test_ends_are_those_of_the_newest_round() -> None:
    seen = RunHistory(Clock().loop.clock)
    seen.on_event(Started("job", 2, ("n0",), ("n0", 29500)))
    seen.on_event(Round(1, 0, 2, ("n0",)))
    seen.on_event(Exit(0, "n0", 7, 3, False, ""))
    seen.on_event(Exit(1, "n0", 8, -15, True, ""))
    assert seen.exits == {0: (3, False), 1: (-15, True)}
    seen.on_event(Round(2, 1, 2, ("n0",)))
    assert (seen.round, seen.restarts, seen.exits) == (2, 1, {})


def test_how_long_ranks_have_done_nothing() -> None:
    seen = RunHistory(Clock().loop.clock)
    rows = [RankActivity(rank, 4000, "S", 1.0, 0.0, 0, 0, 5.0 + rank, False) for rank in (0, 1)]
    seen.on_event(RanksActive("n0", Activity(1.0, 0.0, tuple(rows))))
    seen.on_event(RanksActive("n0", Activity(2.0, 0.0, (rows[1]._replace(idle=0.0),))))
    assert seen.idle == {0: 5.0, 1: 0.0}
    seen.on_event(Round(2, 1, 2, ("n0",)))
    assert seen.idle == {}
