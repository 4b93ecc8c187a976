"""What a job has left on a machine is ended; whatever only looks like it is left alone."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.job_messages import EndedJob, EndJob
from dsrun.launcher.node.machine import job_processes, leftovers, processes
from dsrun.launcher.node.machine.job_processes import (
    JobEnder,
    JobProcess,
    find,
    guards,
    kill_left,
    launchers,
)

from ...support.launcher_name import NAME
from ...support.limits import HANG, NEVER, wait_for
from ...support.needs import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOB = f"20261122-101112-{os.getpid():06x}"
"""Unique, as several processes run these tests at a time."""

GONE = "999999999:5"
"""A node launcher that is gone."""

WAIT = "import signal, sys; print(flush=True); signal.pause()"
STUBBORN = f"import signal; signal.signal(15, signal.SIG_IGN); {WAIT}"
FORKS = """
import os, select
print(flush=True)
reader = select.poll()
reader.register(1, 0)
while not reader.poll(1):
    if os.fork() > 0:
        os._exit(0)
"""
"""Has another pid every millisecond, until its test is over and reads no more."""


class Processes:
    """Starts processes with these variables, and ends them."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack

    def start(
        self, job: str = JOB, launcher: str = GONE, code: str = WAIT, user: int | None = None
    ) -> subprocess.Popen[bytes]:
        given = {"DSRUN_JOB_ID": job, NAME: launcher}
        env = {**os.environ, **{name: text for name, text in given.items() if text}}
        argv = (
            [sys.executable, "-ISc", code] if user is None else ["sh", "-c", "echo; exec sleep 600"]
        )
        child = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, user=user)
        self._stack.enter_context(child)
        self._stack.callback(child.kill)
        assert child.stdout
        child.stdout.readline()
        return child


@pytest.fixture
def some() -> Iterator[Processes]:
    """Processes of a test."""
    with ExitStack() as stack:
        yield Processes(stack)


def found(job: str = JOB) -> list[int]:
    held = list(find(job))
    for one in held:
        one.close()
    return [one.pid for one in held]


def ended(
    grace: float = NEVER,
    number: int = signal.SIGTERM,
    clock: Callable[[], float] = time.monotonic,
) -> EndedJob:
    """End the job, and return the outcome."""
    loop, outcomes = Loop(clock), []

    def over(outcome: EndedJob) -> None:
        outcomes.append(outcome)
        loop.stop()

    ending = JobEnder(loop, EndJob(JOB, number, grace), over)
    ending.start()
    if not outcomes:
        loop.run()
    return outcomes[0]


def test_processes_are_found_by_the_whole_id(some: Processes) -> None:
    mine, _ = some.start(), some.start(job=JOB + "0")
    some.start(job=JOB[:-1])
    assert found() == [mine.pid]
    assert found("") == []


def test_what_only_looks_like_the_job_is_left_alone(some: Processes) -> None:
    """A variable of that name alone, another job's, the id among the arguments, the name."""
    others = [
        some.start(launcher=""),
        some.start(launcher="1"),
        some.start(launcher="x:y"),
        some.start(job="", launcher=GONE),
        some.start(job="", code=f"'DSRUN_JOB_ID={JOB} {NAME}={GONE}';{WAIT}"),
    ]
    mine = some.start()
    outcome = ended()
    assert outcome.left == ()
    assert [text.split()[1] for text in outcome.ended] == [str(mine.pid)]
    assert mine.wait() == -signal.SIGTERM
    assert [one.poll() for one in others] == [None] * len(others)


@pytest.mark.skipif(os.getuid() != 0, reason="root is needed to be another user")
def test_other_users_are_left_alone(some: Processes) -> None:
    other, mine = some.start(user=65534), some.start()
    assert found() == [mine.pid]
    ended()
    assert mine.wait() == -signal.SIGTERM
    assert other.poll() is None


def test_this_process_and_those_above_it_are_left_alone() -> None:
    """Somebody runs the command in a terminal that a worker has opened."""
    code = f"""
import sys
sys.path[:] = {sys.path!r}
from dsrun.launcher.node.machine import leftovers
from dsrun.launcher.node.machine.job_processes import find
leftovers.LAUNCHER = {NAME.encode()!r}
print(list(find({JOB!r})))
"""
    env = {**os.environ, "DSRUN_JOB_ID": JOB, NAME: GONE}
    argv = ["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", code]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_what_a_killed_node_launcher_has_left_is_killed(some: Processes) -> None:
    left, other = some.start(), some.start(job=JOB + "0")
    owned = some.start(launcher=f"{GONE},{leftovers.identity(os.getpid())}")
    assert [text.split()[1] for text in kill_left(JOB)] == [str(left.pid)]
    assert left.wait() == -signal.SIGKILL
    assert (other.poll(), owned.poll()) == (None, None)
    assert kill_left(JOB) == []


def test_a_node_launcher_without_its_guard_is_killed_with_what_it_has_started(
    some: Processes,
) -> None:
    """It is stopped or stuck: otherwise it would have ended with its guard."""
    launcher = some.start(job="", launcher="")
    os.kill(launcher.pid, signal.SIGSTOP)
    left = some.start(launcher=f"{leftovers.identity(launcher.pid)},{GONE}")
    assert [text.split()[1] for text in kill_left(JOB)] == [str(left.pid)]
    assert (left.wait(), launcher.wait()) == (-signal.SIGKILL, -signal.SIGKILL)


def test_a_stopped_process_is_continued_to_end(some: Processes) -> None:
    mine = some.start()
    os.kill(mine.pid, signal.SIGSTOP)
    assert ended().left == ()
    assert mine.wait() == -signal.SIGTERM


def test_a_stubborn_process_is_killed_after_the_grace(some: Processes) -> None:
    mine = some.start(code=STUBBORN)
    began = time.monotonic()
    assert len(ended(grace=0.3).ended) == 1
    assert time.monotonic() - began >= 0.3
    assert mine.wait() == -signal.SIGKILL


def test_processes_that_change_their_pid_are_killed(some: Processes) -> None:
    for _ in range(3):
        some.start(code=FORKS)
        assert ended(grace=0.2).left == ()
        assert not any(found() for _ in range(50))


WRAPPED = """
import os, signal, sys
sys.path[:] = {path!r}
from pathlib import Path
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.job_messages import EndJob
from dsrun.launcher.node.machine import leftovers
from dsrun.launcher.node.machine.job_processes import JobEnder, find
leftovers.LAUNCHER = {name!r}
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
last = Path("/proc/sys/kernel/ns_last_pid")
last.write_text("30000")
for _ in range(300):
    os.posix_spawn("/bin/sleep", ["sleep", "600"], {{}})
for _ in range(3):
    last.write_text("300")
    ours, theirs = os.pipe()
    files = [(os.POSIX_SPAWN_DUP2, theirs, 1)]
    env = {{"DSRUN_JOB_ID": {job!r}, {name!r}.decode(): {gone!r}}}
    argv = [sys.executable, "-ISc", {code!r}]
    os.posix_spawn(sys.executable, argv, env, file_actions=files)
    os.read(ours, 1)
    loop = Loop()
    JobEnder(loop, EndJob({job!r}, signal.SIGTERM, 0.2), lambda _: loop.stop()).start()
    loop.run()
    print(any(list(find({job!r})) for _ in range(50)))
"""
"""Ends a job three times, among many processes with higher pids that are older."""


@pytest.mark.skipif(os.getuid() != 0, reason="root is needed for a namespace of pids")
def test_so_they_are_where_pids_have_begun_anew() -> None:
    need("unshare")
    code = WRAPPED.format(path=sys.path, name=NAME.encode(), job=JOB, gone=GONE, code=FORKS)
    command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    ran = subprocess.run(
        [*command, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    assert ran.stdout == "False\n" * 3


def test_all_end_where_each_look_takes_long(
    some: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten seconds, by the clock of the loop."""
    looks: list[str] = []

    def look(job_id: str) -> Iterator[JobProcess]:
        looks.append(job_id)
        return find(job_id)

    monkeypatch.setattr(job_processes, "find", look)
    some.start(code=STUBBORN)
    assert ended(grace=0.2, clock=lambda: time.monotonic() + 10 * len(looks)).left == ()


def test_nothing_to_end_is_an_outcome() -> None:
    assert ended() == EndedJob((), ())


# -- the node launcher ----------------------------------------------------------------------------


def test_a_node_launcher_is_found_by_pid_and_start_time(some: Processes) -> None:
    launcher = some.start(job="", launcher="")
    begun = processes.started(launcher.pid)
    some.start(launcher=f"{launcher.pid}:{begun}")
    assert [one.pid for one in launchers(list(find(JOB)))] == [launcher.pid]
    assert ended(grace=0.3).left == ()
    assert launcher.wait() == -signal.SIGTERM


def test_a_process_with_the_pid_of_a_dead_node_launcher_is_left_alone(some: Processes) -> None:
    other = some.start(job="", launcher="")
    begun = processes.started(other.pid)
    mine = some.start(launcher=f"{other.pid}:{begun - 1}")
    assert launchers(list(find(JOB))) == []
    ended()
    assert mine.wait() == -signal.SIGTERM
    assert other.poll() is None


def test_workers_get_no_signal_while_their_node_launcher_stops_them(some: Processes) -> None:
    """It gives them its own grace; only once it is killed, and has no guard, are they killed."""
    launcher = some.start(job="", launcher="", code=STUBBORN)
    worker = some.start(launcher=f"{launcher.pid}:{processes.started(launcher.pid)}")
    outcome = ended(grace=0.2)
    assert len(outcome.ended) == 1
    assert launcher.wait() == -signal.SIGKILL
    assert worker.wait() == -signal.SIGKILL


def test_a_process_that_cannot_be_ended_is_named(
    some: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    some.start()
    monkeypatch.setattr(job_processes, "LOOKS", 2)
    deaf: Callable[..., None] = lambda _self, _number: None  # noqa: E731
    monkeypatch.setattr(job_processes.JobProcess, "send", deaf)
    outcome = ended(grace=0.1)
    assert outcome.ended == ()
    assert len(outcome.left) == 1
    assert outcome.left[0].startswith("pid ")


def test_closing_leaves_everything_as_it_is(some: Processes) -> None:
    mine = some.start(code=STUBBORN)
    loop = Loop()
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    ending = JobEnder(loop, EndJob(JOB, signal.SIGTERM, 5.0), lambda _: None)
    ending.start()
    ending.close()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
    assert mine.poll() is None


LAUNCHES = """
import os, subprocess, sys, signal
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node import guard

def launcher(line):
    line.keep_alive(Loop(), 600.0, sys.argv[1])
    if sys.argv[2:]:
        subprocess.Popen(sys.argv[2:], start_new_session=True, stdout=subprocess.DEVNULL)
    print(os.getpid(), flush=True)
    signal.pause()

guard.guarded(launcher)
"""


@contextmanager
def stopped_guard(*child: str) -> Iterator[subprocess.Popen[bytes]]:
    """The guard of a job that was stopped, and whose node launcher was killed after that."""
    argv = [sys.executable, "-c", LAUNCHES, JOB, *child]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as guard:
        try:
            assert guard.stdout
            launcher = int(guard.stdout.readline())
            wait_for(lambda: has_guard(guard.pid), "the guard to have its name")
            guard.send_signal(signal.SIGSTOP)
            os.kill(launcher, signal.SIGKILL)
            wait_for(lambda: not processes.started(launcher), "the node launcher to end")
            yield guard
        finally:
            guard.kill()


def has_guard(pid: int) -> bool:
    known = list(guards(JOB))
    for one in known:
        one.close()
    return [one.pid for one in known] == [pid]


@pytest.mark.parametrize("child", [(), ("sleep", "600")])
def test_a_stopped_guard_is_found_and_ends_what_its_node_launcher_has_left(
    child: tuple[str, ...],
) -> None:
    with stopped_guard(*child) as guard:
        outcome = ended()
        assert (outcome.left, guard.wait(timeout=HANG)) == ((), LOST)
        assert f"pid {guard.pid}" in " ".join(outcome.ended)


def test_a_socket_whose_name_another_process_has_taken_names_nobody(some: Processes) -> None:
    mine = some.start(job="")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.bind(f"\0{processes.guard_socket(JOB, mine.pid)}")
        assert ended() == EndedJob((), ())
    assert mine.poll() is None
