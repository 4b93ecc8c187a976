"""Hosts that a file or a program names, asked again and again; and where they cannot be meant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.options import Options
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.elastic import runner_host_watch as host_watch
from dsrun.launcher.features.elastic.plan import elastic_policy, host_updates
from dsrun.launcher.node.machine import processes
from dsrun.launcher.planning.inventory import find_hosts
from dsrun.launcher.resources import discovery
from dsrun.launcher.resources.discovery import discover
from dsrun.launcher.resources.hostfile import parse_hostfile
from dsrun.launcher.resources.select import read_update
from dsrun.launcher.specs.host_updates import HostUpdates

from ...support.checkout import BIN
from ...support.clock import Clock
from ...support.limits import HANG, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    from dsrun.launcher.specs.host import Host


class Watched:
    """A text that changes, and what was heard of it."""

    def __init__(self) -> None:
        self.text, self.wrong = b"n1:2\n", ""
        self.taking = True
        self.taken: list[list[str]] = []
        self.said: list[str] = []
        self.read: list[bytes] = []
        self.clock = Clock()
        self.late: Callable[[bytes, str], None] | None = None
        self.ended = 0
        self.silent = False
        self.watch = host_watch.HostWatch(
            self.clock.loop,
            self.source,
            self.hosts,
            self.take,
            self.said.append,
        )

    def source(self, answer: Callable[[bytes, str], None]) -> Callable[[], None]:
        if self.silent:
            self.late = answer
        else:
            answer(self.text, self.wrong)
        return self.end

    def end(self) -> None:
        self.ended += 1

    def hosts(self, text: bytes) -> list[Host]:
        self.read.append(text)
        return parse_hostfile(text, "hosts")

    def take(self, hosts: Sequence[Host]) -> bool:
        if self.taking:
            self.taken.append([host.name for host in hosts])
        return self.taking

    def say(self, text: bytes, wrong: str = "") -> None:
        """Let the text be another one, and time for three looks at it pass."""
        self.text, self.wrong = text, wrong
        for _ in range(3):
            self.clock.go(host_watch.EVERY)


def test_what_is_new_is_told_once() -> None:
    watched = Watched()
    watched.say(b"n1:2\n")
    watched.say(b"n1:2\nn2:1 # more\n")
    watched.say(b"n1:2\n\nn2:1\n")
    assert watched.taken == [["n1"], ["n1", "n2"], ["n1", "n2"]], "the line numbers are others"


def test_what_is_as_it_was_is_not_read_again() -> None:
    watched = Watched()
    watched.say(b"n1:2\n")
    watched.say(b"n2:2\n")
    watched.say(b"", "program: exited with code 3")
    watched.say(b"n2:2\n")
    watched.say(b"", "program: exited with code 3")
    assert watched.read == [b"n1:2\n", b"n2:2\n"]
    assert len(watched.said) == 2, "it was well meanwhile"


def test_who_is_not_ready_for_it_is_asked_again() -> None:
    watched = Watched()
    watched.taking = False
    watched.say(b"n1:2\n")
    watched.taking = True
    watched.say(b"n1:2\n")
    assert watched.taken == [["n1"]]


def test_what_cannot_be_understood_is_told_once_and_changes_nothing() -> None:
    watched = Watched()
    watched.say(b"n1:2\n")
    watched.say(b"n1 slots=x\nn2\n")
    watched.say(b"", "program: exited with code 3")
    watched.say(b"")
    watched.say(b"n1:2\n")
    assert watched.taken == [["n1"]]
    assert [line.endswith("; the hosts stay as they are") for line in watched.said] == [True] * 3
    assert watched.said[0].startswith("hosts:1:4: 'slots=x': ")


def test_an_answer_that_does_not_come_is_told_once_until_one_has_come() -> None:
    watched = Watched()
    watched.silent = True
    late, there = (b"", "it was stopped"), (b"n1:2\n", "")
    for answer in (late, late, there, there):
        watched.clock.go(host_watch.EVERY)
        watched.clock.go(discovery.SLOW)
        assert watched.late is not None
        watched.late(*answer)
    slow = "--host_discovery_script has not answered for 10 s, and will be stopped after 60 s"
    assert [line.partition(";")[0] for line in watched.said] == [slow, "it was stopped", slow]


def test_what_is_asked_for_at_the_end_is_ended_and_not_told_of() -> None:
    watched = Watched()
    watched.silent = True
    watched.clock.go(host_watch.EVERY)
    watched.watch.close()
    watched.clock.go(discovery.SLOW)
    assert (watched.ended, watched.said) == (1, [])


def test_hosts_are_chosen_of_a_new_list_as_of_the_first() -> None:
    updates = host_updates(Options(hostfile="hosts", exclude="n2", watch_hostfile=True))
    assert updates is not None
    names = [host.name for host in read_update(updates, b"n1 slots=2\nn2 slots=2\nn3 slots=2\n")]
    assert names == ["n1", "n3"]


@pytest.mark.parametrize("script", [False, True])
def test_a_job_names_a_program_or_a_hostfile(tmp_path: Path, script: bool) -> None:
    listed = tmp_path / "hosts"
    listed.write_text("n1 slots=2\n")
    printed = program(tmp_path, 'echo "n2:2"') if script else ""
    clock = Clock()
    taken: list[list[str]] = []

    def take(hosts: Sequence[Host]) -> bool:
        taken.append([host.name for host in hosts])
        clock.loop.stop()
        return True

    updates = HostUpdates(printed, "" if script else str(listed))
    watch = host_watch.of(updates, clock.loop, take, pytest.fail)
    clock.go(host_watch.EVERY)
    if not taken:
        clock.loop.run()
    watch.close()
    assert taken == [["n2"] if script else ["n1"]]


# -- programs -------------------------------------------------------------------------------------


def program(folder: Path, text: str) -> str:
    path = folder / "discover"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def heard(command: str) -> tuple[bytes, str]:
    """What a program has answered, asked once on a loop of its own."""
    clock = Clock()
    found: list[tuple[bytes, str]] = []

    def answer(text: bytes, wrong: str) -> None:
        found.append((text, wrong))
        clock.loop.stop()

    host_watch.of_program(command, clock.loop)(answer)
    if not found:
        clock.loop.run()
    return found[0]


def test_a_program_is_asked(tmp_path: Path) -> None:
    command = program(tmp_path, 'echo "n$1:4"')
    assert heard(f"{command} 7") == (b"n7:4\n", "")
    assert [host.name for host in discover(f"{command} 7")] == ["n7"]


BAD = [
    ("echo n1; echo oh no >&2; exit 3", "exited with code 3: oh no"),
    ("kill -9 $$", "was killed by signal 9"),
]


@pytest.mark.parametrize(("text", "words"), BAD)
def test_a_program_that_fails_is_told_of(tmp_path: Path, text: str, words: str) -> None:
    command = program(tmp_path, text)
    assert heard(command)[1] == f"{command}: {words}"
    with pytest.raises(UsageError, match=words):
        discover(command)


def test_a_program_that_takes_too_long_is_stopped_with_what_it_has_started(tmp_path: Path) -> None:
    """Its own child has its output open, and would have kept the answer for ever."""
    clock = Clock()
    found: list[str] = []

    def answer(_text: bytes, wrong: str) -> None:
        found.append(wrong)
        clock.loop.stop()

    pid = tmp_path / "pid"
    command = program(tmp_path, f"echo n1; sleep 600 & echo $! > {pid}; wait; echo n2")
    host_watch.of_program(command, clock.loop)(answer)
    wait_for(lambda: pid.exists() and pid.read_text().endswith("\n"), "its child")
    clock.go(discovery.PATIENCE - 1)
    assert not found
    clock.now += 1
    clock.loop.run()
    assert found == [f"{command}: took longer than 60 s; stopped"]
    wait_for(lambda: not processes.started(int(pid.read_text())), "its child to be gone")


def test_a_program_that_is_still_running_at_the_end_is_killed(tmp_path: Path) -> None:
    """With what it has started; after that it is no failure."""
    clock = Clock()
    pids, answers = tmp_path / "pids", list[tuple[bytes, str]]()
    command = program(tmp_path, f"sleep 600 & echo $$ $! > {pids}; wait")
    end = host_watch.of_program(command, clock.loop)(lambda *answer: answers.append(answer))
    wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"), "its child")
    end()
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: not processes.started(pid), "its end")  # type: ignore[misc]
    clock.loop.call_later(0.0, clock.loop.stop)
    clock.loop.run()
    end()


@pytest.mark.usefixtures("interrupted")
def test_a_program_is_killed_if_the_start_is_given_up(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    command = program(tmp_path, f"sleep 600 & echo $$ $! > {pids}; wait")
    main = threading.get_ident()

    def waits() -> bool:
        frame: FrameType | None = sys._current_frames()[main]
        while frame is not None and frame.f_code.co_name != "communicate":
            frame = frame.f_back
        return frame is not None and pids.exists() and pids.read_text().endswith("\n")

    def interrupt() -> None:
        wait_for(waits, "the start to wait")
        os.kill(os.getpid(), signal.SIGUSR1)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        discover(command)
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: not processes.started(pid), "its end")  # type: ignore[misc]


@pytest.mark.parametrize("number", discovery.ENDS)
def test_a_program_is_killed_if_a_signal_ends_the_command(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    script = program(tmp_path, f"sleep 600 & echo $$ $! > {pids}; wait")
    argv = [sys.executable, str(BIN / "dsrun"), "--host_discovery_script", script, "x.py"]
    with subprocess.Popen(argv) as command:
        wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"), "the program")
        wait_for(lambda: _handles(command.pid, number), "its handler")
        command.send_signal(number)
        assert command.wait(HANG) == -number
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: not processes.started(pid), "its end")  # type: ignore[misc]


def _handles(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal (SigCgt of proc(5))."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


@pytest.fixture
def interrupted() -> Iterator[None]:
    """SIGUSR1 does what Ctrl-C does."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, former)


def test_a_program_that_there_is_not(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert heard(missing)[1] == f"{missing}: no such file or directory"
    with pytest.raises(UsageError, match=r"--host_discovery_script .*: no such file"):
        discover(missing)


def test_a_large_answer_is_read_whole(tmp_path: Path) -> None:
    text, wrong = heard(program(tmp_path, "seq -f n%g 1 50000"))
    assert (text.count(b"\n"), wrong) == (50000, "")


# -- what cannot be meant -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"host": "n1", "host_discovery_script": "x"},
            "conflicting options: --host and --host_discovery_script; give",
        ),
        (
            {"host": "n1", "watch_hostfile": True},
            "conflicting options: --watch_hostfile and --host; give one",
        ),
        (
            {"hostfile": "no/such", "watch_hostfile": True},
            "--watch_hostfile: no file no/such; give --hostfile FILE",
        ),
        ({"host_discovery_script": "'x"}, '--host_discovery_script "\'x": No closing quotation'),
        ({"host_discovery_script": ""}, "--host_discovery_script: expected a command"),
    ],
)
def test_sources_that_contradict_each_other(given: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_hosts(Options(**given))
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize(
    "given",
    [
        {"watch_hostfile": True},
        {"min_wait": 3.0},
        {"change_notice": "SIGUSR1"},
        {"warm_workers": True},
    ],
)
def test_what_only_an_elastic_job_has_a_use_for(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(UsageError, match=f"--{name}: only in an elastic job; add "):
        elastic_policy(Options(**given), 2)


def test_a_notice_by_a_signal_that_there_is_not() -> None:
    options = Options(elastic_training=True, change_notice="SIGFOO")
    with pytest.raises(UsageError, match="--change_notice: 'SIGFOO': no such signal"):
        elastic_policy(options, 2)
