"""The guard of a node launcher, with real processes: which it ends, and which it spares."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LOST, SWEPT
from dsrun.launcher.node.guard import Guard
from dsrun.launcher.node.machine import processes

from ..support.clock import Clock
from ..support.limits import HANG, NEVER, wait_for
from ..support.specs import bomb
from ..support.unkillable import unkillable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATIENCE = 0.4
"""Seconds after which a node launcher that stands still is ended."""

LONG_PATIENCE = 2.0
"""Such seconds of one that is well, also on a machine on which others keep it waiting."""


def under_guard(body: str, seconds: str = "guard.INITIAL_SILENCE") -> str:
    """Return a program whose node launcher runs `body`, which knows its guard as `line`."""
    return f"""
import os, signal, subprocess, sys
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.node import guard

def launcher(line):
{indent(body, "    ")}
    os._exit(0)

guard.guarded(launcher, {seconds})
"""


BEGIN = """
subprocess.Popen(sys.argv[1:], start_new_session=True)
print(os.getpid(), flush=True)
"""
"""Its output ends with the last process that it has started."""

LIVE = f"""{BEGIN}
loop = Loop()
line.keep_alive(loop, {{patience}})

def live():
    print("lives", flush=True)
    loop.call_later({{patience}} / 4, live)

live()
loop.run()
"""

STILL = f"""{BEGIN}
os.kill(os.getpid(), signal.SIGSTOP)
"""

STOPS = f"""{BEGIN}
line.keep_alive(Loop(), {{patience}})
os.kill(os.getpid(), signal.SIGSTOP)
"""

MISSES = f"""{BEGIN}
os._exit({LOST})
"""

KILLED = f"""{BEGIN}
os.kill(os.getpid(), signal.SIGKILL)
"""

WAKES = f"""{BEGIN}
line.watch(Loop(), print, print)
os.kill(line.pid, signal.SIGSTOP)
sys.stdin.readline()
line.wake()
"""

SILENT = (
    f"the node launcher showed no sign of life for {PATIENCE} s and was killed;"
    " its workers were stopped\n"
)


@contextmanager
def guarded(
    text: str = LIVE,
    child: Sequence[str] = ("sleep", "600"),
    *,
    first: float = NEVER,
    patience: float = NEVER,
) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Yield (guard, pid of the node launcher); both are gone after the `with` block.

    The guard waits `first` seconds for the first sign of life, and `patience` after each.
    """
    with subprocess.Popen(
        [sys.executable, "-c", under_guard(text.format(patience=patience), repr(first)), *child],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as guard:
        assert guard.stdout is not None
        launcher = int(guard.stdout.readline() or guard.pid)  # it may have been ended before
        try:
            yield guard, launcher
        finally:
            with suppress(ProcessLookupError):
                if guard.poll() is None:
                    os.kill(launcher, signal.SIGKILL)


def test_a_node_launcher_that_stands_still_is_ended_with_all_it_has_started() -> None:
    with guarded(STOPS, patience=PATIENCE) as (guard, _):
        errors = guard.communicate(timeout=HANG)[1]
    assert (guard.returncode, errors) == (LOST, SILENT)


def test_a_node_launcher_blocks_no_signals() -> None:
    """What it starts would inherit that."""
    shown = "print(len(signal.pthread_sigmask(signal.SIG_BLOCK, [])), flush=True)"
    body = f"print(os.getpid())\n{shown}"
    with guarded(body) as (guard, _):
        assert guard.stdout is not None
        assert guard.stdout.read() == "0\n"


def test_a_node_launcher_is_missed_before_it_has_shown_any_sign_of_life() -> None:
    with guarded(STILL, first=PATIENCE) as (guard, _):
        errors = guard.communicate(timeout=HANG)[1]
    assert (guard.returncode, errors) == (LOST, SILENT)


def test_a_guard_that_was_stopped_ends_with_its_node_launcher() -> None:
    with guarded(WAKES) as (guard, _):
        wait_for(lambda: processes.stat(guard.pid)[0] == "T", "the guard to be stopped")
        try:
            errors = guard.communicate("go\n", timeout=HANG)[1]
        finally:
            guard.send_signal(signal.SIGCONT)
    assert (guard.returncode, errors) == (0, "")


def test_a_node_launcher_that_misses_the_runner_is_told_of_once_all_is_swept() -> None:
    with guarded(MISSES) as (guard, _):
        errors = guard.communicate(timeout=HANG)[1]
    said = f"the node launcher lost contact with the runner; {SWEPT}\n"
    assert (guard.returncode, errors) == (LOST, said)


@pytest.mark.parametrize("body", [MISSES, KILLED])
def test_nobody_may_hear_what_the_guard_says(body: str) -> None:
    """Its session may be broken, which is why the node launcher misses the runner."""
    read, write = os.pipe()
    os.close(read)
    argv = [sys.executable, "-c", under_guard(body), "true"]
    guard = subprocess.run(argv, stderr=write, stdout=subprocess.DEVNULL, check=False)
    os.close(write)
    assert guard.returncode == LOST


def first_sign(guard: subprocess.Popen[str]) -> None:
    """Wait for the first sign of life of a node launcher that is LIVE: a limit is set from then."""
    assert guard.stdout is not None
    assert guard.stdout.readline() == "lives\n"


def below(*pids: int) -> list[int]:
    """Return the children of these processes that still run."""
    return [p for p in processes.pids() if processes.parent(p) in pids and processes.started(p)]


def test_the_workers_of_a_node_launcher_that_cannot_end_are_ended_at_once() -> None:
    """It waits for a disk that does not answer: neither it nor its children reach the guard."""
    family = ("sh", "-c", "sleep 600 & wait")
    with guarded(LIVE, family, patience=LONG_PATIENCE) as (guard, launcher):
        first_sign(guard)
        with unkillable(launcher):
            assert below(launcher)
            os.kill(launcher, signal.SIGSTOP)
            wait_for(lambda: not below(launcher, *below(launcher)), "the end of the workers")
            assert processes.started(launcher)
        errors = guard.communicate(timeout=HANG)[1]
    assert (guard.returncode, errors) == (LOST, SILENT.replace(f"{PATIENCE}", "2"))


def test_a_fork_bomb_is_ended_with_its_node_launcher(tmp_path: Path) -> None:
    explodes = [sys.executable, "-I", "-S", "-c", bomb(tmp_path, 80)]
    with guarded(LIVE, explodes) as (guard, launcher):
        assert guard.stdout is not None
        while guard.stdout.readline() != "full\n":
            pass
        os.kill(launcher, signal.SIGKILL)
        errors = guard.communicate(timeout=HANG)[1]
    assert errors == "the node launcher was killed by SIGKILL; its workers were stopped\n"


def test_a_guard_to_which_nobody_listens_ends_as_any_other() -> None:
    with guarded() as (guard, launcher):
        first_sign(guard)
        assert guard.stderr is not None
        guard.stderr.close()
        os.kill(launcher, signal.SIGKILL)
        assert guard.wait(timeout=HANG) == LOST


def test_a_guard_that_stood_still_as_well_blames_nobody() -> None:
    """A scheduler suspends all processes of a job, and continues them in any order."""
    with guarded(patience=LONG_PATIENCE) as (guard, launcher):
        first_sign(guard)
        for pid in (launcher, guard.pid):
            os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2 * LONG_PATIENCE)
        for pid in (guard.pid, launcher):
            os.kill(pid, signal.SIGCONT)
        assert guard.stdout is not None
        for _ in range(6):
            assert guard.stdout.readline() == "lives\n"


CLOSES = f"""{BEGIN}
line._line.close()
signal.pause()
"""


def watched_files(pid: int) -> list[str]:
    """Return the descriptors that a process waits for with epoll (proc(5), fdinfo)."""
    infos = [info.read_text() for info in Path(f"/proc/{pid}/fdinfo").iterdir()]
    return [line for info in infos for line in info.splitlines() if line.startswith("tfd:")]


def test_a_guard_does_not_look_at_a_line_that_has_ended_again_and_again() -> None:
    """The node launcher may close it, and go on."""
    with guarded(CLOSES) as (guard, _):
        wait_for(lambda: len(watched_files(guard.pid)) == 1, "the signals alone", 30.0)


# -- what is left, and what is reported -----------------------------------------------------------

SAYS = """
children = [subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL) for _ in range(3)]
pids = [child.pid for child in children]
print(os.getpid(), flush=True)
print(*pids, flush=True)
loop = Loop()
{then}
os._exit({code})
"""


def left_after(then: str, code: int = 0) -> tuple[int, list[bool]]:
    """Return the guard's exit code, and which of three children still live."""
    argv = [sys.executable, "-c", under_guard(SAYS.format(then=then, code=code))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as guard:
        pids = [int(pid) for pid in guard.communicate(timeout=HANG)[0].split()[1:]]
    alive = [bool(processes.started(pid)) for pid in pids]
    for pid, lives in zip(pids, alive, strict=True):
        if lives:
            os.kill(pid, signal.SIGKILL)
    return guard.returncode, alive


@pytest.mark.parametrize(
    ("then", "lives"),
    [
        ("", [False, False, False]),
        ("line.let_stay()", [True, True, True]),
        ("line.spare(pids[:2])", [True, True, False]),
        ("line.let_stay(); line.spare(pids[:1])", [True, False, False]),
        ("line.spare(pids[:1]); line.spare([])", [False, False, False]),
        ("line.spare(pids[:1]); line.let_stay()", [True, True, True]),
        ("line.keep_alive(loop, 600.0); line.spare(pids[1:])", [False, True, True]),
    ],
)
@pytest.mark.parametrize("code", [0, 7])
def test_the_guard_sweeps_all_but_what_may_stay(then: str, lives: list[bool], code: int) -> None:
    """It exits with the exit code of its node launcher."""
    assert left_after(then, code) == (code, lives)


SAYS_AS_A_WORKER = """
fd = line._line.fileno()
said = [b"stay", b"spare %d" % pids[0], b"600.0", b"nan", b"?", bytes(16) + b"stay", bytes(20)]
code = f"import socket; line = socket.socket(fileno={fd}); [line.send(one) for one in {said}]"
subprocess.run([sys.executable, "-c", code], pass_fds=[fd], check=True)
"""


def test_a_worker_that_has_the_socket_cannot_say_what_may_stay() -> None:
    """It has got that with pidfd_getfd(2), but not the secret."""
    assert left_after(SAYS_AS_A_WORKER, 7) == (7, [False, False, False])


def test_what_is_no_signal_is_not_heard() -> None:
    clock = Clock()
    heard: list[int] = []
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with ours, theirs:
        Guard(os.getpid(), ours).watch(clock.loop, heard.append, lambda: None)
        theirs.send(bytes([0, 9, signal.SIGUSR1, 200]))
        clock.settle()
    assert heard == [signal.SIGUSR1]


HEARS = """
loop = Loop()
line.watch(loop, lambda number: print("heard", number, flush=True), lambda: died())
def died():
    print("died", flush=True)
    line.keep_alive(loop, 9.0)  # nobody is there to hear
    line.let_stay()
    loop.stop()
print(os.getpid(), flush=True)
loop.run()
"""


def test_signals_of_the_guard_are_told_and_so_is_its_end() -> None:
    with guarded(HEARS) as (guard, _):
        assert guard.stdout is not None
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
            guard.send_signal(number)
            assert guard.stdout.readline() == f"heard {number:d}\n"
        guard.kill()
        assert guard.stdout.readline() == "died\n"
        assert guard.stdout.readline() == ""


def test_a_guard_that_ends_before_it_has_read_all_has_ended() -> None:
    """The kernel reports such an end as a reset."""
    clock = Clock()
    heard: list[object] = []
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    process = subprocess.Popen(["sleep", str(NEVER)])
    with ours, theirs:
        guard = Guard(process.pid, ours)
        guard.watch(clock.loop, heard.append, lambda: heard.append("ended"))
        guard.keep_alive(clock.loop, 40.0)
        theirs.close()
        clock.settle()
        assert heard == []
        process.kill()
        process.wait()
        clock.settle()
        assert heard == ["ended"]


def test_the_newest_word_on_how_long_to_wait_counts() -> None:
    """There is one series of signs of life, at the newest interval."""
    clock = Clock()
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    with ours, theirs:
        guard = Guard(os.getpid(), ours)
        guard.keep_alive(clock.loop, 40.0)
        assert theirs.recv(99) == b"40.0"
        clock.go(10.0)
        assert theirs.recv(99) == b"40.0"
        guard.keep_alive(clock.loop, 400.0)
        assert theirs.recv(99) == b"400.0"
        for _ in range(9):
            clock.go(10.0)
        with pytest.raises(BlockingIOError):
            theirs.recv(99)
        clock.go(10.0)
        assert theirs.recv(99) == b"400.0"
        with pytest.raises(BlockingIOError):
            theirs.recv(99)


def test_a_guard_that_was_killed_before_it_read_is_a_guard_that_has_ended() -> None:
    """Its end of the line, with a sign of life in it that nobody has read, resets the line."""
    clock, (ours, theirs) = Clock(), socket.socketpair()
    ended: list[str] = []

    def gone() -> bool:
        clock.go(0.0)
        return bool(ended)

    with subprocess.Popen(["sleep", str(NEVER)]) as child, ours:
        guard = Guard(child.pid, ours)
        guard.watch(clock.loop, lambda _number: None, lambda: ended.append("ended"))
        guard.keep_alive(clock.loop, PATIENCE)
        theirs.close()
        try:
            clock.go(0.0)
        finally:
            child.kill()
        wait_for(gone, "the end of the guard")
    assert ended == ["ended"]
