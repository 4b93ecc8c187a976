"""Ctrl-Z: this process sleeps once every node has granted it, or has had its time to."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.control import frames
from dsrun.launcher.head.fleet.suspension import HOLD_TIMEOUT, Suspension

from ...support.checkout import IMPORTABLE
from ...support.clock import Clock
from ...support.run_nodes import SentNode, plan_of, sent_nodes


class Job:
    """Two nodes, and how often this process would have slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.nodes: list[SentNode] = sent_nodes(plan_of(2))
        self.suspension = Suspension(
            self.clock.loop, lambda: [node.connection for node in self.nodes], self.resumed
        )
        self.slept = self.awake = 0
        monkeypatch.setattr(system, "kill", self.kill)

    def kill(self, pid: int, number: int) -> None:
        assert (pid, number) == (os.getpid(), 19)
        self.slept += 1

    def resumed(self) -> None:
        self.awake += 1
        assert self.awake == self.slept

    def grant(self, *numbers: int) -> None:
        for number in numbers:
            self.suspension.on_granted(self.nodes[number].connection)

    def leases(self, number: int) -> list[bytes]:
        return [body for kind, body in self.nodes[number].sink.sent if kind == frames.SUSPEND]


def test_it_sleeps_once_all_nodes_have_granted_it(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    job.suspension.start()
    assert [job.leases(0), job.leases(1)] == [[b"hold"]] * 2
    job.grant(0)
    assert job.slept == 0
    job.grant(1)
    assert (job.slept, job.leases(0), job.leases(1)) == (
        1,
        [b"hold", b"count"],
        [b"hold", b"count"],
    )
    job.clock.go(HOLD_TIMEOUT)
    assert (job.slept, job.awake) == (1, 1), "the time for answers is over, too"


def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    job.suspension.start()
    job.clock.go(HOLD_TIMEOUT - 0.1)
    assert job.slept == 0
    job.clock.go(0.1)
    assert job.slept == 1


def test_a_node_without_a_connection_need_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(monkeypatch)
    job.nodes[1].connection.close("lost")
    job.suspension.start()
    job.grant(0)
    assert job.slept == 1


def test_a_node_that_connects_meanwhile_has_to_answer_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch)
    last, job.nodes = job.nodes[1], job.nodes[:1]
    job.suspension.start()
    job.nodes.append(last)
    job.suspension.on_connected(last.connection)
    assert job.leases(1) == [b"hold"]
    job.grant(0)
    assert job.slept == 0
    job.grant(1)
    assert job.slept == 1


def test_a_node_that_connects_is_told_nothing_without_a_suspension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch)
    job.suspension.on_connected(job.nodes[0].connection)
    assert job.leases(0) == []


def test_a_second_key_changes_nothing_and_a_later_one_suspends_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch)
    job.suspension.start()
    job.suspension.start()
    assert job.leases(0) == [b"hold"]
    job.grant(0, 1, 0, 1)
    assert job.slept == 1
    job.clock.go(HOLD_TIMEOUT)
    job.suspension.start()
    job.grant(1, 0)
    assert job.slept == 2


def test_another_one_soon_after_has_the_whole_time_for_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = Job(monkeypatch)
    job.suspension.start()
    job.grant(0, 1)
    job.clock.go(HOLD_TIMEOUT - 0.1)
    job.suspension.start()
    job.clock.go(HOLD_TIMEOUT - 0.1)
    assert job.slept == 1
    job.clock.go(0.1)
    assert job.slept == 2


def test_time_in_which_it_sleeps_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A timer waits for nodes, whose answers could not be read meanwhile."""
    job, called = Job(monkeypatch), []

    def sleep(_pid: int, _number: int) -> None:
        job.clock.now += 100.0
        job.slept = 1

    monkeypatch.setattr(system, "kill", sleep)
    job.clock.loop.call_later(10.0, lambda: called.append("late"))
    job.suspension.start()
    job.grant(0, 1)
    job.clock.settle()
    assert (job.slept, called) == (1, [])
    job.clock.go(9.0)
    assert called == []
    job.clock.go(1.0)
    assert called == ["late"]


def test_the_process_really_stops() -> None:
    """SIGSTOP, which cannot be caught; whoever started it sees that."""
    code = (
        "from dsrun.launcher.common.loop import Loop\n"
        "from dsrun.launcher.head.fleet.suspension import Suspension\n"
        "loop = Loop(); Suspension(loop, tuple, print).start()\n"
        "loop.call_later(5.0, loop.stop); loop.run()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, **IMPORTABLE})
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.kill()
    process.wait()
