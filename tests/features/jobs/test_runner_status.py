"""The status of runs in every phase."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.features.elastic.runner_policy import RunnerRounds
from dsrun.launcher.features.jobs.runner_job_status import JobStatus, NodeStatus
from dsrun.launcher.features.jobs.runner_status import status
from dsrun.launcher.features.watch.runner_slow_report import Slow
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.policies import ElasticPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.asked_run import AskedRun

    AskedOf = Callable[..., AskedRun]


def now(job: AskedRun) -> JobStatus:
    return status(job.run.view(), job.seen, ranks=True)


def test_before_the_start(asked: AskedOf) -> None:
    job = asked("n0", "n1", started=False)
    job.fleet.node("n0").hello(port=29500)
    job.fleet.step()
    told = now(job)
    assert told.nodes == (NodeStatus("n0", "ready", ""), NodeStatus("n1", "starting", ""))
    assert (told.state, told.world_size, told.running, told.last_rank) == ("starting", 4, 0, None)
    assert [(rank.rank, rank.host, rank.state, rank.pid) for rank in told.ranks] == [
        (0, "n0", "waiting", 0),
        (1, "n0", "waiting", 0),
        (2, "n1", "waiting", 0),
        (3, "n1", "waiting", 0),
    ]


def test_while_it_runs(asked: AskedOf) -> None:
    before = time.time()
    job = asked("n0", "n1", workdir="/w")
    job.prints("n1", 3, b"epoch 1\nepoch 2\n")
    told = now(job)
    assert (told.state, told.running, told.pid, told.workdir) == ("running", 4, os.getpid(), "/w")
    assert (told.program, told.launcher, told.elastic, told.round) == ("x.py", "ssh", False, 0)
    assert before <= told.since + 1 <= time.time() + 2
    assert {node.state for node in told.nodes} == {"running"}
    rank = told.ranks[3]
    assert (rank.host, rank.pid, rank.state, rank.code) == ("n1", 4003, "running", None)
    assert rank.since >= told.since
    assert (rank.last, told.last, told.last_rank) == ("epoch 2", "epoch 2", 3)


def test_ranks_are_left_out_where_they_are_not_needed(asked: AskedOf) -> None:
    job = asked("n0")
    told = status(job.run.view(), job.seen, ranks=False)
    assert (told.ranks, told.running) == ((), 2)


def test_devices_are_named_as_the_mask_does(asked: AskedOf) -> None:
    job = asked(Host("n0", (1, "GPU-x")), started=False)
    job.fleet.node("n0").hello(port=29500, devices=["GPU-a", "GPU-b"])
    job.fleet.step()
    assert [rank.device for rank in now(job).ranks] == ["GPU-b", "GPU-x"]


def test_why_the_others_wait_for_a_rank(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    job.run.state.record.found.append(Slow(1.0, "rank 2 is slow", "quota", (2,), ("n1",)))
    assert [rank.slow for rank in now(job).ranks] == ["", "", "quota", ""]


def test_ranks_that_have_ended(asked: AskedOf) -> None:
    job = asked("n0", "n1")
    job.fleet.node("n0").exits(0, 0)
    job.fleet.node("n0").exits(1, 5)
    job.fleet.step()
    job.fleet.node("n1").exits(2, -15, told=True)
    job.fleet.node("n1").done()
    job.fleet.step()
    told = now(job)
    ends = [(rank.state, rank.code) for rank in told.ranks]
    assert ends == [("ended", 0), ("failed", 5), ("stopped", -15), ("running", None)]
    assert (told.state, told.running) == ("stopping", 1)
    assert [node.state for node in told.nodes] == ["waiting", "done"]


def test_a_node_that_cannot_be_used_or_is_lost(asked: AskedOf) -> None:
    limits = ElasticPolicy(1, 2, 3)
    job = asked("n0", "n1", restarts=lambda run: RunnerRounds(run, limits), elastic=limits)
    job.fleet.node("n1").leaves()
    job.fleet.step()
    told = now(job)
    assert told.elastic
    (lost,) = [node for node in told.nodes if node.state == "lost"]
    assert (lost.host, "ended" in lost.reason) == ("n1", True)
    early = asked("n0", "n1", started=False)
    early.fleet.emit(SessionEnded(1, "no route"))
    assert now(early).nodes[1] == NodeStatus("n1", "lost", "no route")
