"""Nodes where failures begin again and again: who is put aside, and for how long."""

from __future__ import annotations

from dsrun.launcher.features.elastic.runner_failures import FAILURES, LONGEST, WINDOW

from ...support.elastic_rounds import Job, running


def breaks(job: Job, *nodes: int, pause: float = LONGEST) -> None:
    """A failure begins on each of these in turn, so many seconds apart, and all meet again."""
    for node in nodes:
        assert job.failed(f"rank {node} on n{node} exited 1", 1, node)
        job.join(*job.rounds.members)
        job.go(pause)


def test_a_node_where_failures_begin_is_put_aside_for_a_while() -> None:
    job = running(3, restarts=9, cool=300.0)
    breaks(job, *[2] * FAILURES)
    assert job.formed[-1] == [0, 1]
    why = "3 failures within 10 minutes began on n2, and none elsewhere"
    assert job.said[-1] == f"{why}: excluding it for 300 s (--cool_down)"
    job.go(300)
    assert job.called[-1] == [0, 1]
    job.join(0, 1)
    assert job.formed[-1] == [0, 1, 2]


def test_failures_here_and_there_put_nobody_aside() -> None:
    job = running(3, restarts=9, cool=300.0)
    breaks(job, 2, 2, 1, 2, 2, 2)
    assert job.formed[-1] == [0, 1, 2]


def test_failures_that_lie_far_apart_put_nobody_aside() -> None:
    """In a row or not: a healthy node fails three times in a day, too."""
    job = running(3, restarts=9, cool=300.0)
    breaks(job, 2, 2, 2, 2, 2, pause=WINDOW / 2)
    assert job.formed[-1] == [0, 1, 2]
    breaks(job, 2, 2, 2)
    assert job.formed[-1] == [0, 1]


def test_a_failure_elsewhere_brings_a_node_back() -> None:
    """A bug that shows on rank 0 looks like a bad node, until another node has rank 0."""
    job = running(3, restarts=20, cool=3600.0)
    breaks(job, 0, 0, 0)
    assert job.formed[-1] == [1, 2]
    breaks(job, 1)
    assert job.formed[-1] == [0, 1, 2]
    assert "a failure also began on n1: n0 is no longer excluded" in job.said
    breaks(job, 0, 0, 0, 0)
    assert job.formed[-1] == [0, 1, 2], "for ten minutes it is not the node"


def test_a_failure_that_the_loss_of_a_node_has_brought_is_not_the_nodes() -> None:
    job = running(4, restarts=9, cool=300.0)
    breaks(job, 2, 2)
    assert job.failed("rank 2 exited 1", 1, 2)
    job.join(2)
    assert job.leave(0)
    job.join(1, 3)
    job.go(LONGEST)
    assert job.formed[-1] == [1, 2, 3]


def test_a_failure_elsewhere_long_after_brings_nobody_back() -> None:
    job = running(3, restarts=20, cool=3600.0)
    breaks(job, 0, 0, 0)
    job.go(WINDOW)
    breaks(job, 1)
    assert job.formed[-1] == [1, 2]


def test_a_node_without_which_there_are_too_few_is_not_put_aside() -> None:
    job = running(2, least=2, restarts=9, cool=300.0)
    for _ in range(FAILURES + 1):
        breaks(job, 1)
    assert job.formed[-1] == [0, 1]
    assert not [line for line in job.said if "without it" in line]
