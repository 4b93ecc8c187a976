"""Since when ranks have done nothing, from the reports of their nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.features.watch.runner_idle_times import RankIdleTimes


def row(rank: int = 0, idle: float = 0.0, **more: Any) -> RankActivity:
    known = RankActivity(rank, 4000 + rank, "S", 1.0, 0.0, 0, 0, idle, False)
    return known._replace(**more)


def taken(
    idle_times: RankIdleTimes, now: float, *rows: RankActivity, host: str = "n0"
) -> RankIdleTimes:
    idle_times.take(host, Activity(now, 0.0, rows), now)
    return idle_times


def test_a_rank_has_worked_in_the_middle_of_the_last_interval_in_which_it_did() -> None:
    idle_times = taken(RankIdleTimes(2.0), 100.0, row())
    assert idle_times.idle(0, 101.0) == 1.0
    taken(idle_times, 108.0, row(idle=0.0))
    taken(idle_times, 110.0, row(idle=0.0))
    taken(idle_times, 112.0, row(idle=2.0))
    taken(idle_times, 114.0, row(idle=4.0))
    assert idle_times.idle(0, 114.0) == 5.0
    assert idle_times.longest(115.0) == 6.0


def test_no_time_counts_before_a_rank_is_known_or_before_a_new_beginning() -> None:
    idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row(idle=50.0)), 102.0, row(idle=52.0))
    assert idle_times.idle(0, 102.0) == 2.0
    idle_times.restart(103.0)
    taken(idle_times, 104.0, row(idle=54.0))
    assert idle_times.idle(0, 104.0) == 1.0
    taken(idle_times, 106.0, row(idle=56.0, pid=1))
    assert idle_times.idle(0, 106.0) == 0.0


def test_nothing_is_known_of_a_rank_whose_node_reports_no_more() -> None:
    idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row()), 102.0, row(idle=2.0))
    assert idle_times.idle(0, 108.9) > 0
    assert idle_times.idle(0, 109.1) == 0.0
    taken(taken(idle_times, 120.0, row(idle=20.0)), 140.0, row(idle=40.0))
    assert idle_times.idle(0, 190.0) > 0


def test_ranks_that_only_compute_are_still() -> None:
    idle_times = taken(RankIdleTimes(2.0), 100.0, row(0), row(1))
    for at in range(102, 112, 2):
        taken(idle_times, at, row(0, cpu=float(at)), row(1, moved=(at - 100) * 1000))
    assert (idle_times.still(110.0), idle_times.longest(110.0)) == (10.0, 1.0)
    taken(idle_times, 112, row(0, printed=1), row(1))
    assert idle_times.still(112.0) == 0.0
    assert RankIdleTimes(2.0).still(9.0) == 0.0


def test_ranks_that_have_ended_are_forgotten() -> None:
    idle_times = taken(RankIdleTimes(2.0), 100.0, row(0), row(1), row(2))
    taken(idle_times, 100.0, row(3), host="n1")
    taken(idle_times, 101.0, row(0), row(1))
    idle_times.remove(1)
    assert [*idle_times.ranks] == [0, 3]
    assert idle_times.idle_in_turn((1, 2), 102.0) == 0.0
    assert idle_times.idle_in_turn((0, 1, 3), 102.0) == 1.5
    idle_times.clear()
    assert idle_times.longest(102.0) == 0.0


def test_a_debugger_is_attached_for_longer_than_what_reads_a_stack() -> None:
    idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row()), 102.0, row(traced=True))
    assert not idle_times.traced(102.0)
    assert taken(idle_times, 104.0, row(traced=True)).traced(106.0)
    assert not idle_times.traced(120.0), (
        "its node says nothing any more: it may have been frozen then"
    )


@pytest.mark.parametrize("how", [{"waited": 0.1}, {"state": "R"}])
def test_a_rank_that_gets_no_cpu_is_not_idle(how: dict[str, Any]) -> None:
    idle_times = RankIdleTimes(2.0)
    for at in range(0, 20, 2):
        now = {name: value * at if name == "waited" else value for name, value in how.items()}
        taken(idle_times, 100.0 + at, row(idle=float(at), **now))
    assert idle_times.idle(0, 118.0) == 1.0


def test_what_workers_do_to_say_where_they_are_does_not_count() -> None:
    for how, idle in (
        ({"cpu": 1.05, "moved": 20_000}, 6.0),
        ({"cpu": 1.5}, 1.0),
        ({"printed": 1}, 1.0),
    ):
        idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row()), 102.0, row(idle=2.0))
        idle_times.take("n0", Activity(104.0, 0.0, (row()._replace(**how),)), 104.0, (102.5, 102.6))
        taken(idle_times, 106.0, row(idle=2.0)._replace(**how))
        assert idle_times.idle(0, 106.0) == pytest.approx(idle + (2.0 if idle == 1.0 else 0.0))


def test_what_workers_say_late_of_where_they_are_does_not_count_either() -> None:
    """A node with many processes, or busy CPUs, reads for longer than a report takes."""
    told = row()._replace(moved=20_000)
    for ended, still in ((102.6, 1.0), (107.0, 8.0)):
        idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row()), 102.0, row(idle=2.0))
        taken(idle_times, 104.0, row(idle=4.0))
        taken(idle_times, 106.0, row(idle=6.0))
        idle_times.take("n0", Activity(107.0, 0.0, (told,)), 107.0, (102.5, ended))
        assert idle_times.still_of(0, 108.0) == still


@pytest.mark.parametrize(
    ("moved", "still"),
    [
        pytest.param((60_000,), 11.0, id="it answers once"),
        pytest.param((60_000, 60_000), 11.0, id="as a report comes"),
        pytest.param((60_000, 60_000, 60_000), 3.0, id="it writes a checkpoint at 30 KB/s"),
        pytest.param((1 << 20, 1 << 20, 1), 11.0, id="a long answer"),
        pytest.param((2 << 20, 1 << 20), 5.0, id="it writes a checkpoint at 1 MB/s"),
    ],
)
def test_a_worker_answers_once_a_look(moved: tuple[int, ...], still: float) -> None:
    """However long it takes to read the stacks: the rest is work, such as a checkpoint."""
    idle_times, total = taken(RankIdleTimes(2.0), 100.0, row()), 0
    taken(idle_times, 102.0, row(idle=2.0))
    for at in range(4):
        total += sum(moved[at : at + 1])
        now = 104.0 + 2 * at
        activity = Activity(now, 0.0, (row(idle=4.0 + 2 * at, moved=total),))
        idle_times.take("n0", activity, now, (102.5, 109.0))
    assert idle_times.still_of(0, 111.0) == still


@pytest.mark.parametrize(("rested", "idle"), [(0.0, 8.0), (4.0, 8.0), (4.5, 3.0)])
def test_a_rank_that_works_until_a_look_works_in_it(rested: float, idle: float) -> None:
    """What it does then is no answer; looks that follow each other would hide all that it does."""
    idle_times = taken(RankIdleTimes(2.0, rested), 98.0, row())
    for now in (100.0, 102.0):
        taken(idle_times, now, row(idle=now - 98.0))
    busy = row(moved=20_000)
    idle_times.take("n0", Activity(104.0, 0.0, (busy,)), 104.0, (102.0, 103.0))
    taken(idle_times, 106.0, busy._replace(idle=2.0))
    assert idle_times.idle(0, 106.0) == pytest.approx(idle)


def test_the_time_in_which_a_node_was_stopped_does_not_count() -> None:
    idle_times = taken(taken(RankIdleTimes(2.0), 100.0, row()), 102.0, row(idle=2.0))
    taken(idle_times, 150.0, row(idle=6.0))
    assert idle_times.idle(0, 150.0) == 2.0
