"""One fork, until its program runs; `test_preloader` has the histories of several."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload.node_fork import EVERY, MOST, Fork, ForkPhase
from dsrun.launcher.node.workers.spawn import MemoryPolicy, WorkerSpec

from ...support.clock import Clock
from ...support.fake_preloader import FakeFork

if TYPE_CHECKING:
    from collections.abc import Iterator


class History:
    """A fork, and its process as the test plays it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.clock = Clock()
        self.fake = FakeFork(theirs)
        self.phases: list[ForkPhase] = []
        self.notes: list[str] = []
        self.fork = Fork(
            self.clock.loop, ours, lambda one: self.phases.append(one.phase), self.notes.append
        )

    def go(self) -> None:
        self.clock.settle()


@pytest.fixture
def history(adopting: None) -> Iterator[History]:  # noqa: ARG001
    found = History()
    yield found
    found.fork.close()
    found.fake.line.close()
    if found.fake.pid:
        os.kill(found.fake.pid, signal.SIGKILL)
        os.waitpid(found.fake.pid, 0)


SPEC = WorkerSpec(7, [b"p"], {}, b"/", memory=MemoryPolicy("bind", (0, 2)))


def test_phases_go_forward(history: History) -> None:
    assert (history.fork.phase, history.fork.pid) == (ForkPhase.ASKED, 0)
    history.fake.waits()
    history.go()
    assert (history.fork.phase, history.fork.pid) == (ForkPhase.WAITING, history.fake.pid)
    process = history.fork.order(SPEC)
    assert process is not None
    order, files = history.fake.order()
    assert order["memory"] == ["bind", [0, 2]]
    assert history.fork.phase is ForkPhase.ORDERED
    history.fork.stop()  # a worker is not ended
    assert history.fork.phase is ForkPhase.ORDERED
    history.fake.line.close()
    history.go()
    assert history.phases == [ForkPhase.WAITING, ForkPhase.CLOSED]
    for fd in (*files, process.stdin, process.stdout, process.stderr):
        os.close(fd)


def test_one_that_waits_is_killed_at_its_end(history: History) -> None:
    history.fake.waits()
    history.go()
    history.fork.stop()
    assert history.fork.phase is ForkPhase.CLOSED
    assert os.WTERMSIG(os.waitpid(history.fake.pid, 0)[1]) == signal.SIGKILL
    history.fake.pid = 0


def test_one_whose_pid_is_not_known_finds_its_socket_closed(history: History) -> None:
    history.fork.stop()
    assert history.fake.line.recv(1) == b""


def test_an_order_for_one_that_has_died_comes_back(history: History) -> None:
    history.fake.waits()
    history.go()
    history.fake.line.close()
    assert history.fork.order(SPEC) is None
    assert history.fork.phase is ForkPhase.CLOSED


@pytest.mark.parametrize("message", [b"", b"x", b"99"])
def test_nonsense_closes_it(history: History, message: bytes) -> None:
    history.fake.line.send(message)
    history.go()
    assert history.phases == [ForkPhase.CLOSED]


@pytest.mark.parametrize("pid", [1, "1", None, -1])
def test_its_pid_has_to_be_a_childs(history: History, pid: object) -> None:
    history.fake.says(pid=pid)
    history.go()
    assert history.phases == [ForkPhase.CLOSED]


def test_an_order_that_is_not_carried_out_has_a_limit(history: History) -> None:
    history.fake.waits()
    history.go()
    process = history.fork.order(SPEC)
    assert process is not None
    for _ in range(MOST - 1):
        history.clock.go(EVERY)
    assert history.notes == []
    history.clock.go(EVERY)
    assert history.notes == ["rank 7 was not started: the fork did not begin within 30 s; killed"]
    assert os.WTERMSIG(os.waitpid(history.fake.pid, 0)[1]) == signal.SIGKILL
    history.fake.pid = 0
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)


def test_a_worker_that_has_begun_is_not_ended(history: History) -> None:
    history.fake.waits()
    history.go()
    process = history.fork.order(SPEC)
    assert process is not None
    history.fake.line.close()
    for _ in range(2 * MOST):
        history.clock.go(EVERY)
    assert (history.notes, os.waitpid(history.fake.pid, os.WNOHANG)) == ([], (0, 0))
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)


def test_a_cold_start_without_a_reason_is_not_worth_a_line(history: History) -> None:
    history.fake.waits()
    history.go()
    process = history.fork.order(SPEC)
    assert process is not None
    history.fake.says(cold="")
    history.go()
    assert history.notes == []
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)
