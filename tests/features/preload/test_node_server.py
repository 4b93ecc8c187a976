"""Forks and the preloader that they come from: whose children they are, and who dies with whom."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.preload import node_messages as messages
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import WorkerSpec

from ...support.limits import HANG
from ...support.preloading import COMMON, Preloader, preloader
from ...support.specs import PYTHON

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("adopting")


@pytest.fixture
def process(tmp_path: Path, adopting: None) -> Iterator[Preloader]:  # noqa: ARG001
    with preloader(["colorsys"], tmp_path) as one:
        yield one


@pytest.fixture
def spec(tmp_path: Path) -> WorkerSpec:
    (tmp_path / "train.py").write_text("import sys; print(*sys.argv, 'colorsys' in sys.modules)")
    env = {os.fsencode(name): os.fsencode(value) for name, value in COMMON.items()}
    return WorkerSpec(0, [PYTHON, b"-u", b"train.py", b"x"], env, os.fsencode(tmp_path))


def test_all_forks_of_a_request_are_children_of_the_node_launcher(
    process: Preloader, spec: WorkerSpec
) -> None:
    forks = process.forks(5)
    pids = {fork.pid for fork in forks}
    assert {*processes.children()} == {process.process.pid, *pids}
    assert {os.getsid(pid) for pid in pids} == pids
    workers = [fork.becomes(spec) for fork in forks]
    assert [worker.ends().out for worker in workers] == ["train.py x True\n"] * 5
    for fork in forks:
        fork.line.close()


def test_a_fork_without_an_order_ends_without_a_word(process: Preloader) -> None:
    forks = process.forks(2)
    for fork in forks:
        fork.line.close()
        assert os.waitpid(fork.pid, 0)[1] == 0


def test_a_fork_that_nobody_waits_for_ends_as_well(process: Preloader) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        ours.close()
        messages.send(process.line, {"fork": 1}, [theirs.fileno()])
    forks = process.forks(1)  # and is done with the one before
    others = {*processes.children()} - {process.process.pid, forks[0].pid}
    assert [os.waitpid(pid, 0)[1] for pid in others] == [0] * len(others)
    forks[0].line.close()
    assert os.waitpid(forks[0].pid, 0)[1] == 0


def test_forks_live_on_without_the_preloader(tmp_path: Path, spec: WorkerSpec) -> None:
    with preloader(["colorsys"], tmp_path) as process:
        (fork,) = process.forks(1)
    with fork.line:
        assert fork.becomes(spec).ends().out == "train.py x True\n"


def test_they_do_if_it_is_killed(tmp_path: Path, spec: WorkerSpec) -> None:
    with preloader(["colorsys"], tmp_path, status=-signal.SIGKILL) as process:
        (fork,) = process.forks(1)
        os.kill(process.process.pid, signal.SIGKILL)
        assert messages.receive(process.line) is None  # no fork holds the other end
        with fork.line:
            assert fork.becomes(spec).ends().out == "train.py x True\n"


def test_a_preloader_that_dies_while_it_imports_ends_its_line(tmp_path: Path) -> None:
    (tmp_path / "dies.py").write_text("import os; os.kill(os.getpid(), 11)")
    with preloader(["dies"], tmp_path, tmp_path, status=-signal.SIGSEGV) as process:
        assert process.report == {}


def test_a_request_that_is_not_possible_closes_the_sockets(tmp_path: Path) -> None:
    (tmp_path / "bound.py").write_text(
        "import os\ndef none():\n    raise BlockingIOError\nos.fork = none"
    )
    with preloader(["bound"], tmp_path, tmp_path) as process:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            ours.settimeout(HANG)
            with theirs:
                messages.send(process.line, {"fork": 1}, [theirs.fileno()])
            assert messages.receive(ours) is None


def test_many_forks_leave_nothing_in_the_preloader(process: Preloader) -> None:
    files = Path(f"/proc/{process.process.pid}/fd")
    before = len([*files.iterdir()])
    for _ in range(20):
        for fork in process.forks(2):
            fork.line.close()
            os.waitpid(fork.pid, 0)
    assert len([*files.iterdir()]) < before + 20  # it may just have some open for a moment
    assert processes.children() == [process.process.pid]
