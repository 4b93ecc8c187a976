"""The rows of the live view: what is measured, and what is shown where not all fits."""

from __future__ import annotations

import json

from dsrun.launcher.control.job_messages import RankUsage
from dsrun.launcher.features.jobs.command_view import JobView, cores, lines, title, usage_of

from ...support.jobs import HOSTILE, NOW, status, usage, view


def test_hosts_and_their_ranks() -> None:
    rows = lines(view(status()), 10)
    assert [(row.level, row.name) for row in rows] == [
        *(("host", "node-00"), ("rank", "0"), ("rank", "1")),
        *(("host", "node-01"), ("rank", "2"), ("rank", "3")),
    ]
    host, rank = rows[0], rows[2]
    assert (host.cpu, host.memory, host.processes) == ("45.2/96", "100G/512G", "8")
    assert host.device == "90% of 2"
    assert (rank.pid, rank.cpu, rank.memory, rank.processes) == ("4001", "123%", "3.0G", "4")
    assert (rank.device, rank.last) == ("91% 33.0G/80.0G", "step 7")
    assert not any(row.bad for row in rows)


def test_hosts_alone_where_ranks_do_not_fit() -> None:
    rows = lines(view(status(4, 8)), 10)
    assert [row.level for row in rows] == ["host"] * 4
    assert rows[1].last == "ranks 8-15; 8| step 7"
    assert lines(view(status(4, 1)), 7)[0].last == "rank 0; 0| step 7"


def test_hosts_with_a_problem_come_first_where_hosts_do_not_fit() -> None:
    job = status(64, 1)
    ranks = [
        rank._replace(state="failed", code=9) if rank.rank == 60 else rank for rank in job.ranks
    ]
    nodes = [
        node._replace(state="lost", reason="power") if node.host == "node-50" else node
        for node in job.nodes
    ]
    rows = lines(view(job._replace(ranks=tuple(ranks), nodes=tuple(nodes))), 10)
    assert len(rows) == 10
    assert [row.name for row in rows[:3]] == ["node-50", "node-60", "node-00"]
    assert [row.last for row in rows[:2]] == ["power", "rank 60; failed: 60"]
    assert (rows[-1].level, rows[-1].name) == ("note", "+55 hosts")


def test_ranks_that_do_not_run_as_they_should() -> None:
    job = status(1, 4)
    job = job._replace(
        ranks=(
            *job.ranks[:2],
            job.ranks[2]._replace(state="failed", code=-9, pid=0),
            job.ranks[3]._replace(state="waiting", pid=0),
        )
    )
    known = view(job)
    used = known.used["node-00"]
    rows = tuple(row._replace(state="D" if row.rank == 0 else "T") for row in used.ranks[:2])
    shown = lines(known._replace(used={"node-00": used._replace(ranks=rows)}), 10)[1:]
    assert [row.state for row in shown] == ["in disk wait", "paused", "failed (-9)", "waiting"]
    assert [row.bad for row in shown] == [True, True, True, False]
    assert [row.pid for row in shown] == ["4000", "4001", "", ""]
    assert [row.cpu + row.memory for row in shown[2:]] == ["", ""]


def test_what_is_not_known_is_empty() -> None:
    rows = lines(JobView(status(1, 1), {}, {}), 10)
    assert {row.cpu + row.memory + row.processes + row.device for row in rows} == {""}


def test_why_the_others_wait_is_shown_of_ranks_or_of_their_host() -> None:
    job = status()
    slow = [rank._replace(slow="quota" if rank.rank > 1 else "") for rank in job.ranks]
    known = view(job._replace(ranks=tuple(slow)))
    assert [row.slow for row in lines(known, 10)] == ["", "", "", "", "quota", "quota"]
    assert [row.slow for row in lines(known, 2)] == ["", "quota"]


def test_everything_of_others_is_made_safe() -> None:
    job = status(1, 1, last=HOSTILE)
    node = job.nodes[0]._replace(host=HOSTILE, reason=HOSTILE)
    rank = job.ranks[0]._replace(host=HOSTILE, slow=HOSTILE)
    known = view(job._replace(nodes=(node,), ranks=(rank,), program=HOSTILE))
    for row in lines(known, 10):
        assert all(str(cell).isprintable() for cell in row)
    assert title(known, NOW).isprintable()


def test_the_title() -> None:
    known = view(status()._replace(round=2, restarts=1))._replace(problem="HAS ENDED")
    assert title(known, NOW) == (
        "20261122-101112-abcdef  running, round 2  4 ranks on 2 nodes  for 1h01m  1 restart"
        "  HAS ENDED  train.py --lr 1"
    )


def test_cores_are_measured_between_two_reports() -> None:
    job = status()
    before = {"node-00": usage(job, "node-00")}
    after = {
        "node-00": usage(job, "node-00", clock=12.0, cpu=8.0),
        "node-01": usage(job, "node-01"),
    }
    assert cores(before, after) == {0: 1.5, 1: 1.5}
    assert cores(after, after) == {}


def test_a_rank_that_was_started_again_is_measured_anew() -> None:
    job = status(1, 1)
    before, after = usage(job, "node-00"), usage(job, "node-00", clock=12.0, cpu=1.0)
    again = after._replace(ranks=(after.ranks[0]._replace(pid=1),))
    assert cores({"n": before}, {"n": again}) == {}
    assert cores({"n": before}, {"n": after}) == {0: 0.0}, "children that have ended are not lost"


def test_reports_come_from_json_and_ranks_of_one_host_are_put_together() -> None:
    job = status(1, 2)
    whole = usage(job, "node-00")
    parts = [whole._replace(ranks=(row,)) for row in whole.ranks]
    wire = json.loads(json.dumps([["node-00", part._asdict()] for part in parts]))
    (used,) = usage_of(wire).values()
    assert used == whole
    assert isinstance(used.ranks[0], RankUsage)
