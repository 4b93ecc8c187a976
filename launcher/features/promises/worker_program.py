"""A stand-in for a worker. The workers' Python runs this file; it imports nothing of dsrun.

It prints `@up`, waits for SIGUSR1, which dsrun passes to every rank, and then does what its first
argument names. Most faults begin in the last rank, the victim. Lines that begin with @ are for
`runner_job`.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIFETIME = 300
"""Seconds after which a stand-in ends by itself, whatever has become of dsrun."""

PAUSE = 0.02
"""Seconds between two lines for a reader that is gone."""

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
VICTIM = RANK == WORLD - 1
OWNERS = os.environ.get("DSRUN_NODE_LAUNCHER", "")


def main() -> None:
    """Do what the first argument names; the second is the number of lines of all ranks."""
    act = sys.argv[1]
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.alarm(LIFETIME)
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0":
        say("@again")
        os._exit(0)
    hear, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGUSR1, lambda *_: None)
    BEFORE.get(act, lambda: None)()
    say("@up", RANK, WORLD, os.environ.get("DSRUN_JOB_ID", ""), OWNERS)
    while (number := os.read(hear, 1)[0]) != signal.SIGUSR1:
        if number == signal.SIGTERM:
            say("@saved")
            os._exit(0)
    if VICTIM or act in EVERYWHERE:
        ACTS[act]()
    while True:
        signal.pause()


def say(*words: object) -> None:
    """Print a line with one system call."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def ignore_signals() -> None:
    """Ignore the signals that ask a process to stop."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)


def save_at_the_end() -> None:
    """Let `main` receive SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: None)


def start_children() -> None:
    """Start a child, one in a separate session, and a daemon; they ignore SIGTERM."""
    ready, up = os.pipe()
    for kind in ("child", "session", "daemon"):
        if os.fork() == 0:
            signal.set_wakeup_fd(-1)
            ignore_signals()
            signal.alarm(LIFETIME)
            if kind != "child":
                os.setsid()
            if kind == "daemon" and os.fork():
                os._exit(0)
            signal.alarm(LIFETIME)  # a fork has no alarm of its parent's
            os.write(up, b".")
            while True:
                time.sleep(LIFETIME)
    for _ in range(3):
        os.read(ready, 1)


def exit_with_7() -> None:
    """Exit as a program that has failed."""
    os.write(2, b"stand-in: this rank fails on purpose\n")
    os._exit(7)


def raise_error() -> None:
    """Fail as Python programs do."""
    raise RuntimeError("stand-in: batch 17 is bad")


def kill_itself() -> None:
    """Die as by the OOM killer."""
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    """Die as by a bug in native code, without a core dump."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.kill(os.getpid(), signal.SIGSEGV)


def stop_itself() -> None:
    """Do nothing more, like a rank that a debugger or a user has stopped."""
    os.kill(os.getpid(), signal.SIGSTOP)


def print_lines() -> None:
    """Print this rank's share of all lines, numbered, and exit with 0."""
    data = "".join(f"line {number}\n" for number in range(int(sys.argv[2]) // WORLD)).encode()
    while data:
        data = data[os.write(1, data) :]
    finish()


def print_on() -> None:
    """Print lines until stopped."""
    while True:
        say("still here")
        time.sleep(PAUSE)


def finish() -> None:
    """Exit with 0."""
    say("@done")
    os._exit(0)


def signal_owner(place: int, number: int) -> None:
    """Signal the node launcher (0) or the guard (1) of this worker, both above it in its line."""
    owners = [tuple(map(int, one.split(":"))) for one in OWNERS.split(",") if one]
    if len(owners) <= place or owners[place][0] == 1:
        say("@skip", "this process is the first one of its container, which only its host can kill")
        return
    pid, start = owners[place]
    try:
        fd = os.pidfd_open(pid)
        if (pid, start) in line():
            signal.pidfd_send_signal(fd, number)
        else:
            say("@skip", f"pid {pid} is not above the worker")
    except OSError as error:
        say("@skip", f"pidfd_open: {error.strerror}")


def line() -> Iterator[tuple[int, int]]:
    """Yield pid and start time of each process above this one, as proc(5) has them."""
    pid = os.getppid()
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        yield pid, int(fields[19])
        pid = int(fields[1])


BEFORE: dict[str, Callable[[], None]] = {
    "leave": start_children,
    "abandon": start_children,
    "deaf": ignore_signals,
    "save": save_at_the_end,
}
"""The acts of a stand-in before it is up."""

ACTS: dict[str, Callable[[], None]] = {
    "exit": exit_with_7,
    "leave": exit_with_7,
    "deaf": exit_with_7,
    "raise": raise_error,
    "kill": kill_itself,
    "crash": segfault,
    "together": lambda: os._exit(40 + RANK % 8),
    "hang": stop_itself,
    "lines": print_lines,
    "print": print_on,
    "finish": finish,
    "abandon": finish,
    "save": signal.pause,
    "kill_launcher": lambda: signal_owner(0, signal.SIGKILL),
    "stop_launcher": lambda: signal_owner(0, signal.SIGSTOP),
    "kill_guard": lambda: signal_owner(1, signal.SIGKILL),
}
"""The acts of a stand-in after SIGUSR1."""

EVERYWHERE = frozenset({"together", "lines", "print", "finish", "abandon"})
"""Acts of all ranks; the others are the victim's alone."""


if __name__ == "__main__":
    main()
