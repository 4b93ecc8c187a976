"""Ctrl-C while a program waits: counted, and never in the middle of something."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.api.interrupts import Interrupts

from ..support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """A pipe."""
    fds = os.pipe()
    yield fds
    for fd in fds:
        os.close(fd)


def interrupt_soon() -> threading.Timer:
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    return timer


def test_an_interrupt_ends_a_wait(pipe: tuple[int, int]) -> None:
    with Interrupts() as interrupts:
        timer = interrupt_soon()
        assert interrupts.wait(pipe[0], HANG)
        assert interrupts.count == 1
        timer.join()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_outside_of_a_wait_an_interrupt_is_only_counted(pipe: tuple[int, int]) -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.count == 2
        assert interrupts.wait(pipe[0], HANG, seen=1)
        assert not interrupts.wait(pipe[0], 0.01, seen=2)


def test_waits_end_with_what_arrives_or_in_time(pipe: tuple[int, int]) -> None:
    with Interrupts() as interrupts:
        assert not interrupts.wait(pipe[0], 0.01)
        os.write(pipe[1], b"x")
        assert interrupts.wait(pipe[0], None)


def test_a_handler_of_the_program_stays(pipe: tuple[int, int]) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        with Interrupts() as interrupts:
            os.kill(os.getpid(), signal.SIGINT)
            assert not interrupts.wait(pipe[0], 0.01)
        assert (seen, interrupts.count) == ([signal.SIGINT], 0)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_change_no_handler(pipe: tuple[int, int]) -> None:
    found: list[bool] = []

    def wait() -> None:
        with Interrupts() as interrupts:
            found.append(interrupts.wait(pipe[0], 0.01))

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    assert found == [False]
