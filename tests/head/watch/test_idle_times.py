"""Since when ranks have done nothing, from the reports of their nodes."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control.activity_messages import Activity, RankActivity
from dsrun.launcher.head.watch.idle_times import Tracks


def row(rank: int = 0, idle: float = 0.0, **more: Any) -> RankActivity:
    known = RankActivity(rank, 4000 + rank, "S", 1.0, 0.0, 0, 0, idle, False)
    return known._replace(**more)


def taken(tracks: Tracks, now: float, *rows: RankActivity, host: str = "n0") -> Tracks:
    tracks.take(host, Activity(now, 0.0, rows), now)
    return tracks


def test_a_rank_has_worked_in_the_middle_of_the_last_interval_in_which_it_did() -> None:
    tracks = taken(Tracks(2.0), 100.0, row())
    assert tracks.idle(0, 101.0) == 1.0
    taken(tracks, 108.0, row(idle=0.0))
    taken(tracks, 110.0, row(idle=0.0))
    taken(tracks, 112.0, row(idle=2.0))
    taken(tracks, 114.0, row(idle=4.0))
    assert tracks.idle(0, 114.0) == 5.0
    assert tracks.longest(115.0) == 6.0


def test_no_time_counts_before_a_rank_is_known_or_before_a_new_beginning() -> None:
    tracks = taken(taken(Tracks(2.0), 100.0, row(idle=50.0)), 102.0, row(idle=52.0))
    assert tracks.idle(0, 102.0) == 2.0
    tracks.begin_again(103.0)
    taken(tracks, 104.0, row(idle=54.0))
    assert tracks.idle(0, 104.0) == 1.0
    taken(tracks, 106.0, row(idle=56.0, pid=1))
    assert tracks.idle(0, 106.0) == 0.0


def test_nothing_is_known_of_a_rank_whose_node_reports_no_more() -> None:
    tracks = taken(taken(Tracks(2.0), 100.0, row()), 102.0, row(idle=2.0))
    assert tracks.idle(0, 108.9) > 0
    assert tracks.idle(0, 109.1) == 0.0
    taken(taken(tracks, 120.0, row(idle=20.0)), 140.0, row(idle=40.0))
    assert tracks.idle(0, 190.0) > 0


def test_ranks_that_only_compute_are_still() -> None:
    tracks = taken(Tracks(2.0), 100.0, row(0), row(1))
    for at in range(102, 112, 2):
        taken(tracks, at, row(0, cpu=float(at)), row(1, moved=(at - 100) * 1000))
    assert (tracks.still(110.0), tracks.longest(110.0)) == (10.0, 1.0)
    taken(tracks, 112, row(0, printed=1), row(1))
    assert tracks.still(112.0) == 0.0
    assert Tracks(2.0).still(9.0) == 0.0


def test_ranks_that_have_ended_are_forgotten() -> None:
    tracks = taken(Tracks(2.0), 100.0, row(0), row(1), row(2))
    taken(tracks, 100.0, row(3), host="n1")
    taken(tracks, 101.0, row(0), row(1))
    tracks.drop(1)
    assert [*tracks.ranks] == [0, 3]
    assert tracks.idle_in_turn((1, 2), 102.0) == 0.0
    assert tracks.idle_in_turn((0, 1, 3), 102.0) == 1.5
    tracks.clear()
    assert tracks.longest(102.0) == 0.0


def test_a_debugger_is_attached_for_longer_than_what_reads_a_stack() -> None:
    tracks = taken(taken(Tracks(2.0), 100.0, row()), 102.0, row(traced=True))
    assert not tracks.traced(102.0)
    assert taken(tracks, 104.0, row(traced=True)).traced(106.0)
    assert not tracks.traced(120.0), "its node says nothing any more: it may have been frozen then"


@pytest.mark.parametrize("how", [{"waited": 0.1}, {"state": "R"}])
def test_a_rank_that_gets_no_cpu_is_not_idle(how: dict[str, Any]) -> None:
    tracks = Tracks(2.0)
    for at in range(0, 20, 2):
        now = {name: value * at if name == "waited" else value for name, value in how.items()}
        taken(tracks, 100.0 + at, row(idle=float(at), **now))
    assert tracks.idle(0, 118.0) == 1.0


def test_what_workers_do_to_say_where_they_are_does_not_count() -> None:
    for how, idle in (
        ({"cpu": 1.05, "moved": 20_000}, 6.0),
        ({"cpu": 1.5}, 1.0),
        ({"printed": 1}, 1.0),
    ):
        tracks = taken(taken(Tracks(2.0), 100.0, row()), 102.0, row(idle=2.0))
        tracks.take("n0", Activity(104.0, 0.0, (row()._replace(**how),)), 104.0, (102.5, 102.6))
        taken(tracks, 106.0, row(idle=2.0)._replace(**how))
        assert tracks.idle(0, 106.0) == pytest.approx(idle + (2.0 if idle == 1.0 else 0.0))


def test_what_workers_say_late_of_where_they_are_does_not_count_either() -> None:
    """A node with many processes, or busy CPUs, reads for longer than a report takes."""
    told = row()._replace(moved=20_000)
    for ended, still in ((102.6, 1.0), (107.0, 8.0)):
        tracks = taken(taken(Tracks(2.0), 100.0, row()), 102.0, row(idle=2.0))
        taken(tracks, 104.0, row(idle=4.0))
        taken(tracks, 106.0, row(idle=6.0))
        tracks.take("n0", Activity(107.0, 0.0, (told,)), 107.0, (102.5, ended))
        assert tracks.still_of(0, 108.0) == still


def test_the_time_in_which_a_node_was_stopped_does_not_count() -> None:
    tracks = taken(taken(Tracks(2.0), 100.0, row()), 102.0, row(idle=2.0))
    taken(tracks, 150.0, row(idle=6.0))
    assert tracks.idle(0, 150.0) == 2.0
