"""Functions that may block, in a child."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from functools import partial

import pytest

from dsrun.launcher.node.machine import processes
from dsrun.launcher.node.machine.blocking import ChildCall, call_in_child

from ...support.clock import Clock
from ...support.leaks import open_files


def result(pid: int, pipe: int) -> bytes:
    """What the pipe has until its end, and the child is reaped."""
    with open(pipe, "rb") as file:
        data = file.read()
    os.waitpid(pid, 0)
    return data


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_result_comes_back_from_a_child() -> None:
    assert json.loads(result(*call_in_child(lambda: [os.getppid(), "x" * 100_000]))) == [
        os.getpid(),
        "x" * 100_000,
    ]


def test_the_child_has_nothing_open_but_the_pipe() -> None:
    ours, theirs = os.pipe()
    try:
        there = json.loads(result(*call_in_child(lambda: sorted(open_files()))))
        assert len(there) == 5, "no streams, the pipe, and the folder that is being listed"
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_child_that_dies_has_no_result() -> None:
    assert result(*call_in_child(die)) == b""


def test_a_child_that_hangs_can_be_killed() -> None:
    pid, pipe = call_in_child(lambda: time.sleep(600))
    processes.send(pid, signal.SIGKILL)
    assert result(pid, pipe) == b""


def test_no_room_for_another_process() -> None:
    code = f"""
import errno, os, resource, sys
sys.path[:0] = {sys.path!r}
from dsrun.launcher.node.machine.blocking import call_in_child
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
before = len(os.listdir("/proc/self/fd"))
try:
    call_in_child(list)
except OSError as error:
    assert len(os.listdir("/proc/self/fd")) == before
    sys.exit(error.errno)
"""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", code]) == errno.EAGAIN


def test_an_event_of_a_descriptor_that_had_its_number_is_no_answer() -> None:
    """Of two that are ready at a time, the first closes the other, and a call gets its number."""
    clock, pipes = Clock(), [os.pipe(), os.pipe()]
    calls: list[ChildCall] = []
    answers: list[bytes] = []
    closed: list[int] = []

    def ready(other: int) -> None:
        if calls:
            return
        clock.loop.remove(other)
        os.close(other)
        closed.append(other)
        calls.append(ChildCall(clock.loop, call_in_child(signal.pause), 1e6, answers.append))
        assert calls[0]._fd == other

    for at, (read, write) in enumerate(pipes):
        clock.loop.add_reader(read, partial(ready, pipes[1 - at][0]))
        os.write(write, b"x")
    clock.settle()
    (call,) = calls
    os.kill(call.pid, signal.SIGKILL)
    os.waitpid(call.pid, 0)
    call.reaped(call.pid)
    clock.settle()
    assert answers == [b""]
    for read, write in pipes:
        os.close(write)
        if read not in closed:
            os.close(read)
