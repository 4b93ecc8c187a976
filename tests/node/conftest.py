"""Shared by the tests of the node's half: real children, none of which may be left."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node import leftovers, processes

from ..support.fake_agent import FakeAgents
from ..support.fake_runner import FakeRunner
from ..support.launcher_name import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests leave for a moment is not left over here."""
    monkeypatch.setattr(leftovers, "LAUNCHER", NAME.encode())


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
    left = processes.children()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    processes._prctl(36, 0)
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
