"""Which workers run where: as SIGQUIT shows it, and as a line says it of those left behind."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control.messages import WorkerExit, WorkersStarted
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.run.run_node import RunNode
from dsrun.launcher.head.run.running_ranks import LISTED, PATIENCE, Workers, may_run_on
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import lay_out

from ...support.clock import Clock


class Watched:
    """Nodes n0, n1, ... of two workers each, which have all started, and what is said of them."""

    def __init__(self, nodes: int = 2) -> None:
        self.clock = Clock()
        self.said: list[str] = []
        timers: Any = self.clock.loop
        self.workers = Workers(self.clock.loop.clock, timers, self.said.append)
        self.peers = [
            RunNode(NodeConnection(n), n, n.rank)
            for n in lay_out([Host(f"n{at}", (0, 1)) for at in range(nodes)])
        ]
        for peer in self.peers:
            ranks = tuple(worker.rank for worker in peer.node.workers())
            self.workers.started(peer, WorkersStarted(ranks, tuple(100 + rank for rank in ranks)))

    def end(self, *ranks: int, code: int = 0, signalled: bool = False) -> None:
        for rank in ranks:
            self.workers.ended(WorkerExit(rank, 100 + rank, code, signalled, 0.0))


def test_ranks_that_go_on_long_after_others_are_named_once_for_all_that_have_ended() -> None:
    job = Watched()
    job.end(0)
    job.clock.go(PATIENCE - 1)
    job.end(1, 3)
    assert job.said == []
    job.clock.go(1)
    line = "3 of 4 ranks have ended; still running: rank 2 on n1, pid 102"
    assert job.said == [line]
    job.clock.go(10 * PATIENCE)
    assert job.said == [line]


def test_more_that_end_later_are_worth_another_line() -> None:
    job = Watched(nodes=3)
    job.end(5)
    job.clock.go(PATIENCE)
    job.end(0)
    job.clock.go(PATIENCE)
    assert job.said == [
        "1 of 6 ranks have ended; still running: rank 0 on n0, pid 100; rank 1 on n0, pid 101;"
        " rank 2 on n1, pid 102 and 2 more",
        "2 of 6 ranks have ended; still running: rank 1 on n0, pid 101; rank 2 on n1, pid 102;"
        " rank 3 on n1, pid 103 and 1 more",
    ]


@pytest.mark.parametrize("what", ["all end", "fail", "are told to", "stop", "lost", "again"])
def test_nothing_is_said_where_nobody_is_left_behind(what: str) -> None:
    job = Watched()
    if what == "fail":
        job.end(0, 1, code=1)
    elif what == "are told to":
        job.end(0, 1, signalled=True)
    else:
        job.end(0, 1)
    if what == "all end":
        job.end(2, 3)
    elif what == "stop":
        job.workers.close()
    elif what == "lost":
        job.workers.lost(job.peers[1])
    elif what == "again":
        job.workers.start_round()
    job.clock.go(PATIENCE)
    assert job.said == []


def test_who_runs_where() -> None:
    job = Watched()
    job.clock.go(192)
    assert job.workers.table() == (
        "running: 4 of 4 ranks\n"
        "  n0: ranks 0-1, pids 100-101, up for 3 min 12 s\n"
        "  n1: ranks 2-3, pids 102-103, up for 3 min 12 s"
    )
    job.end(0, 2, 3)
    job.workers.place = " here"
    assert job.workers.table() == (
        "running: 1 of 4 ranks here\n  n0: rank 1, pid 101, up for 3 min 12 s"
    )


ENDS = (
    "the node kills them within 45 s (guard 4710, launcher 4711); if both were stopped or killed,"
    " they may remain: `dsrun-job kill JOB --host n1` kills them"
)


@pytest.mark.parametrize(
    ("launchers", "more"),
    [
        ((4710, 4711), f"; {ENDS}"),
        ((), ""),
        ((-1, 4711), ""),
    ],
)
def test_what_may_run_on_where_a_node_is_lost(launchers: tuple[int, ...], more: str) -> None:
    job = Watched()
    job.end(3)
    lost = job.workers.lost(job.peers[1])
    assert may_run_on("n1", launchers, [*lost, 103, 107], 45.0) == (
        f"may still be running on n1: pids 102-103,107{more}"
    )
    assert job.workers.lost(job.peers[1]) == []
    assert may_run_on("n1", launchers, [], 45.0) == (
        f"may still be running on n1: workers, or processes that they started{more}"
    )


def test_of_very_many_hosts_the_first_are_listed() -> None:
    lines = Watched(nodes=LISTED + 5).workers.table().split("\n")
    assert lines[0] == f"running: {2 * LISTED + 10} of {2 * LISTED + 10} ranks"
    assert (len(lines), lines[-1]) == (LISTED + 2, "  and 5 more hosts")


def test_a_node_has_no_word_on_the_workers_of_others() -> None:
    job = Watched()
    job.workers.started(job.peers[0], WorkersStarted((0, 2, 99, -1), (7, 8, 9)))
    assert job.workers.table().splitlines()[1:] == [
        "  n0: ranks 0-1, pids 7,101, up for 0.0 s",
        "  n1: ranks 2-3, pids 102-103, up for 0.0 s",
    ]


def test_which_nodes_have_started_workers() -> None:
    job = Watched()
    assert job.workers.began(job.peers[1])
    node = lay_out([Host("n9", (0,))])[0]
    other = RunNode(NodeConnection(node), node, 9)
    assert not job.workers.began(other)


def test_where_a_rank_runs() -> None:
    job = Watched()
    first, second = job.peers
    assert (job.workers.runs(second, 3), job.workers.runs(first, 3)) == (True, False)
    job.end(3)
    assert not job.workers.runs(second, 3)
