"""Histories of a preloader, whose process the test plays."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.features.preload.node_preloader import Preloader, PreloaderPhase
from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.workers.spawn import SpawnFailed, WorkerSpec

from ...support.clock import Clock
from ...support.fake_preloader import REQUEST, SLEEP, FakePreloader
from ...support.leaks import open_files
from ...support.limits import wait_for
from ...support.specs import ENV

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.preload.node_workers import PreloadRequest
    from dsrun.launcher.node.workers.spawn import Process


class History:
    """A preloader, its process, and what it has told."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.fake = FakePreloader()
        self.notes: list[str] = []
        self.calls: list[str] = []
        self.one = Preloader(self.clock.loop, REQUEST, self.notes.append, self.fake.start)

    def when_ready(self, count: int, name: str = "ready") -> None:
        self.one.when_ready(count, lambda: self.calls.append(name))

    def imports(self, **report: object) -> None:
        self.fake.imports(**report)
        self.clock.settle()

    def waiting(self, count: int) -> None:
        """So many forks that wait."""
        self.when_ready(count)
        self.clock.settle()
        self.fake.asked()
        for one in self.fake.forks:
            if not one.pid:
                one.waits()
        self.clock.settle()

    def until_given_up(self) -> int:
        """Let time pass until it is unusable, at most 20 s; returns the seconds."""
        while "nanosleep" not in Path(f"/proc/{self.fake.pid}/wchan").read_text():
            time.sleep(0.001)
        for seconds in range(1, 21):
            self.clock.go(1.0)
            if self.one.problem:
                return seconds
        return 0

    def killed(self, pid: int) -> bool:
        """Whether a child ends by SIGKILL; it is reaped."""
        status = os.waitpid(pid, 0)[1]
        self.one.on_reaped({pid})
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


@pytest.fixture
def history(adopting: None) -> Iterator[History]:  # noqa: ARG001
    before = open_files()
    found = History()
    yield found
    found.fake.close()
    found.clock.settle()
    found.one.close()
    for pid in processes.children():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    del found
    assert len(open_files()) <= len(before) + 1  # the loop


def worker(rank: int = 0, **more: Any) -> WorkerSpec:
    return WorkerSpec(rank, [b"python", b"-u", b"x.py"], {b"A": b"\xff"}, b"/tmp", **more)


def test_forks_are_asked_for_once_the_modules_are_there(history: History) -> None:
    history.when_ready(2)
    history.clock.settle()
    assert (history.fake.asked(), history.calls, history.one.phase) == (
        0,
        [],
        PreloaderPhase.STARTING,
    )
    history.imports()
    assert (history.fake.asked(), history.one.phase) == (2, PreloaderPhase.READY)
    history.fake.forks[0].waits()
    history.clock.settle()
    assert history.calls == []
    history.fake.forks[1].waits()
    history.clock.settle()
    assert history.calls == ["ready"]
    assert history.one.pids == {history.fake.pid, *(one.pid for one in history.fake.forks)}


def test_only_what_is_lacking_is_asked_for(history: History) -> None:
    history.imports()
    history.waiting(1)
    history.when_ready(1, "again")
    assert history.calls == ["ready", "again"]
    history.waiting(3)
    assert history.fake.asked() == 3


def test_many_forks_are_asked_for_in_several_messages(history: History) -> None:
    history.imports()
    history.when_ready(450)
    assert history.fake.asked() == 450


def test_the_order_has_all_that_a_worker_is(history: History) -> None:
    history.imports()
    history.waiting(1)
    read, write = os.pipe()
    process = history.one.take(worker(3, cpus=(0, 1), fds=(read,)))
    assert process is not None
    (fork,) = history.fake.forks
    assert (process.pid, process.spec.rank) == (fork.pid, 3)
    order, files = fork.order()
    assert order == {
        "argv": ["python", "-u", "x.py"],
        "env": {"A": "\udcff"},
        "workdir": "/tmp",
        "cpus": [0, 1],
        "memory": ["", []],
        "path": [],
        "fds": [read],
        "hook": "",
    }
    stdin, stdout, stderr, passed = files
    assert os.path.sameopenfile(passed, read)
    assert os.read(stdin, 1) == b""  # /dev/null
    os.write(stdout, b"out")
    os.write(stderr, b"err")
    assert (os.read(process.stdout, 9), os.read(process.stderr, 9)) == (b"out", b"err")
    assert history.one.pids == {history.fake.pid}
    for fd in (*files, read, write):
        os.close(fd)
    close(process)


def test_standard_input_may_be_a_pipe(history: History) -> None:
    history.imports()
    history.waiting(1)
    process = history.one.take(worker(keep_stdin=True))
    assert process is not None
    _, (stdin, stdout, stderr) = history.fake.forks[0].order()
    os.write(process.stdin, b"x")
    assert os.read(stdin, 9) == b"x"
    for fd in (stdin, stdout, stderr):
        os.close(fd)
    close(process)


def close(process: Process) -> None:
    for fd in (process.stdin, process.stdout, process.stderr):
        os.close(fd)


def test_what_a_worker_says_while_it_becomes_one_is_for_the_user(history: History) -> None:
    history.imports()
    history.waiting(2)
    taken = [history.one.take(worker(rank)) for rank in (4, 5)]
    first, second = history.fake.forks
    first.says(cold="descriptor 9 is open")
    second.says(error="no such folder")
    history.clock.settle()
    assert history.notes == [
        "rank 4 imports its modules itself: descriptor 9 is open",
        "rank 5 was not started: no such folder",
    ]
    first.line.close()
    second.line.close()
    history.clock.settle()
    for process in taken:
        assert process is not None
        close(process)


@pytest.mark.parametrize(
    ("report", "problem"),
    [
        ({"failed": {"m": "ValueError: x"}}, "m: ValueError: x"),
        (
            {"unsafe": "a thread is running (T)"},
            "forking is not safe after their import: a thread is running (T)",
        ),
    ],
)
def test_modules_may_make_it_unusable(
    history: History, report: dict[str, object], problem: str
) -> None:
    history.when_ready(2)
    history.imports(**report)
    assert (history.one.phase, history.one.problem) == (PreloaderPhase.UNUSABLE, problem)
    assert (history.calls, history.fake.asked()) == (["ready"], 0)
    assert history.killed(history.fake.pid)
    assert history.one.take(worker()) is None


def test_a_module_that_is_not_found_does_not(history: History) -> None:
    history.imports(missing={"m": "No module named 'm'"})
    assert history.notes == ["not preloaded: No module named 'm'"]
    assert history.one.phase is PreloaderPhase.READY


def test_one_that_is_asked_before_its_end_was_seen_has_ended(history: History) -> None:
    history.imports()
    history.fake.line.close()
    history.when_ready(1)
    assert (history.calls, history.one.problem) == (["ready"], "the preloader exited")


@pytest.mark.parametrize("ready", [False, True])
def test_whoever_waits_does_not_wait_for_one_that_has_died(history: History, ready: bool) -> None:
    if ready:
        history.imports()
    history.when_ready(1)
    os.kill(history.fake.pid, signal.SIGKILL)
    assert history.killed(history.fake.pid)
    assert (history.calls, history.one.problem) == (["ready"], "the preloader exited")
    assert history.one.pids == set()


def test_its_socket_shows_its_end_as_well(history: History) -> None:
    history.when_ready(1)
    history.fake.line.close()
    history.clock.settle()
    assert (history.calls, history.one.problem) == (["ready"], "the preloader exited")
    assert history.killed(history.fake.pid)


def test_its_last_line_is_told(adopting: None) -> None:  # noqa: ARG001
    clock, fake = Clock(), FakePreloader()

    def start(request: PreloadRequest) -> tuple[Process, socket.socket]:
        process, line = fake.start(request)
        read, write = os.pipe()
        os.write(write, b"one\nSegmentation fault\n\n")
        os.close(write)
        os.dup2(read, process.stderr)
        os.close(read)
        return process, line

    one = Preloader(clock.loop, REQUEST, print, start)
    clock.settle()
    os.kill(fake.pid, signal.SIGKILL)
    os.waitpid(fake.pid, 0)
    one.on_reaped({fake.pid})
    assert one.problem == "the preloader exited: Segmentation fault"
    fake.close()


def test_nonsense_is_its_end(history: History) -> None:
    history.when_ready(1)
    history.fake.line.send(b"x")
    history.clock.settle()
    assert (history.calls, history.one.phase) == (["ready"], PreloaderPhase.UNUSABLE)


def test_an_import_that_hangs_is_given_up(history: History) -> None:
    history.when_ready(1)
    assert 10 <= history.until_given_up() <= 12
    assert (history.calls, history.one.problem) == (
        ["ready"],
        "the import made no progress for 10 s",
    )
    assert history.killed(history.fake.pid)


def test_it_is_watched_while_nobody_waits(history: History) -> None:
    history.one.cancel_forks(lambda: history.calls.append("gone"))
    assert history.calls == ["gone"]
    history.until_given_up()
    assert history.one.problem == "the import made no progress for 10 s"


def test_a_process_that_the_kernel_keeps_is_not_awaited_for_ever(history: History) -> None:
    """It is killed, but not reaped."""
    history.one.close(lambda: history.calls.append("gone"))
    history.clock.go(29.0)
    assert history.calls == []
    history.clock.go(2.0)
    assert history.calls == ["gone"]


def test_forks_that_do_not_come_are_given_up(history: History) -> None:
    history.imports()
    history.when_ready(2)
    history.fake.asked()
    history.fake.forks[0].waits()
    history.clock.settle()
    history.clock.go(4.9)
    assert history.calls == []
    history.clock.go(0.2)
    assert (history.calls, history.one.problem) == (
        ["ready"],
        "the preloader did not fork within 5 s",
    )
    assert history.killed(history.fake.forks[0].pid)
    assert history.killed(history.fake.pid)


def test_nor_is_the_next_one_that_is_asked_for_given_up_too_soon(history: History) -> None:
    history.imports()
    history.waiting(1)
    history.clock.go(60.0)
    history.when_ready(2, "next")
    history.clock.go(4.0)
    assert history.one.phase is PreloaderPhase.READY


def test_a_fork_that_is_not_possible(history: History) -> None:
    history.imports()
    history.when_ready(1)
    history.fake.asked()
    history.fake.forks[0].line.close()
    history.clock.settle()
    assert (history.calls, history.one.problem) == (["ready"], "the preloader could not fork")


def test_only_a_child_is_taken_for_a_fork(history: History) -> None:
    history.imports()
    history.when_ready(1)
    history.fake.asked()
    history.fake.forks[0].waits(pid=1)
    history.clock.settle()
    assert history.one.phase is PreloaderPhase.UNUSABLE


def test_a_fork_that_has_died_is_not_taken(history: History) -> None:
    history.imports()
    history.waiting(2)
    first, second = history.fake.forks
    os.kill(first.pid, signal.SIGKILL)
    first.line.close()
    process = history.one.take(worker())
    assert process is not None
    assert process.pid == second.pid
    assert history.one.take(worker()) is None
    close(process)


def test_a_fork_that_is_stopped_is_not_taken_but_ended(history: History) -> None:
    history.imports()
    history.waiting(2)
    first, second = history.fake.forks
    os.kill(first.pid, signal.SIGSTOP)
    wait_for(lambda: processes.stat(first.pid)[0] == "T", "its stop")
    process = history.one.take(worker())
    assert process is not None
    assert process.pid == second.pid
    assert history.notes == [f"a fork for a worker was stopped (pid {first.pid}); killed"]
    assert first.pid in history.one.pids  # it is no worker, and not gone yet
    assert history.killed(first.pid)
    assert history.one.pids == {history.fake.pid}
    close(process)


def test_the_end_of_a_fork_is_heard_of(history: History) -> None:
    history.imports()
    history.waiting(1)
    (fork,) = history.fake.forks
    os.kill(fork.pid, signal.SIGKILL)
    assert history.killed(fork.pid)
    assert history.one.pids == {history.fake.pid}
    history.when_ready(1)
    assert history.fake.asked() == 2


def test_forks_are_known_before_they_have_said_anything(history: History) -> None:
    """They have its command line until they become workers."""
    history.imports()
    history.when_ready(1)
    pid = os.posix_spawn(SLEEP[0], SLEEP, {})
    other = os.posix_spawn(SLEEP[0], [b"/bin/sleep", b"60"], {})
    for one in (history.fake.pid, pid, other):
        wait_for(Path(f"/proc/{one}/cmdline").read_bytes, "a command line")
    assert history.one.pids == {history.fake.pid, pid}
    os.kill(other, signal.SIGKILL)


def test_who_is_dismissed_is_not_called_and_has_no_forks(history: History) -> None:
    history.imports()
    history.waiting(1)
    history.when_ready(2, "late")
    history.one.cancel_forks()
    assert history.fake.forks[0].pid in history.one.pids  # it is still there
    assert history.killed(history.fake.forks[0].pid)
    history.clock.settle()
    assert (history.calls, history.one.phase) == (["ready"], PreloaderPhase.READY)
    assert history.one.pids == {history.fake.pid}


def test_its_end_is_reported_when_it_is_gone(history: History) -> None:
    history.one.close(lambda: history.calls.append("gone"))
    assert history.calls == []
    assert history.killed(history.fake.pid)
    assert (history.calls, history.one.phase) == (["gone"], PreloaderPhase.CLOSED)
    history.one.close(lambda: history.calls.append("again"))
    assert history.calls == ["gone", "again"]


def test_one_that_cannot_be_started_is_unusable() -> None:
    def start(_request: PreloadRequest) -> tuple[Process, socket.socket]:
        raise SpawnFailed("no python")

    clock, calls = Clock(), []
    one = Preloader(clock.loop, REQUEST, print, start)
    one.when_ready(1, lambda: calls.append("ready"))
    assert (one.phase, one.problem, calls) == (
        PreloaderPhase.UNUSABLE,
        "the preloader was not started: no python",
        ["ready"],
    )


def test_the_environment_is_the_requests(adopting: None) -> None:  # noqa: ARG001
    """The real process: a python that does not exist."""
    one = Preloader(Clock().loop, REQUEST._replace(env=ENV), print)
    assert one.problem == "the preloader was not started: /python: No such file or directory"
