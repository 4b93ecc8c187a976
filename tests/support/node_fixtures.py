"""Shared by the tests of the node's half: real children, none of which may be left."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common import system
from dsrun.launcher.node.machine import leftovers, processes

from .fake_agent import FakeAgents
from .fake_runner import FakeRunner
from .launcher_name import NAME
from .limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests leave for a moment is not left over here."""
    monkeypatch.setattr(leftovers, "LAUNCHER", NAME.encode())


def _nobody_left() -> bool:
    """Reap the children that have ended; return whether there is none.

    Some had no CPU yet to end: they were killed, or have given their answer. The clock of a session
    in a test runs ahead of the kernel's.
    """
    for pid in processes.children():
        os.waitpid(pid, os.WNOHANG)
    return not processes.children()


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt the orphans of this test, as a node launcher does, and leave none.

    A group takes all children of its process for its own, at the end at the latest.
    """
    assert processes.children() == [], "these tests would kill what others have started"
    processes.adopt_orphans()
    handled = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = {one: signal.getsignal(one) for one in (*handled, signal.SIGUSR1, signal.SIGUSR2)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)
    with suppress(TimeoutError):
        wait_for(_nobody_left, "the end of all children")
    left = processes.children()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    system.prctl(36, 0)
    assert left == []


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[FakeAgents]:
    """Where torch's agents are found, which a test plays."""
    found = FakeAgents(tmp_path)
    yield found
    found.close()


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[FakeRunner]:
    """The runner of a session, which a test plays."""
    one = FakeRunner(tmp_path)
    yield one
    one.close()


@pytest.fixture
def joined(tmp_path: Path) -> Iterator[FakeRunner]:
    """The runner of a node that has joined by itself."""
    one = FakeRunner(tmp_path, joined=True)
    yield one
    one.close()
