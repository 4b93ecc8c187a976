"""What is looked for, and when."""

from __future__ import annotations

import os
import signal

import pytest

from dsrun.launcher.features.diagnosis import node_death_watch as death_watch
from dsrun.launcher.features.diagnosis import node_memory as memory
from dsrun.launcher.features.diagnosis.node_death_watch import DeathWatch
from dsrun.launcher.features.diagnosis.node_kernel_log import KernelLog
from dsrun.launcher.node.workers.spawn import Process

from ...support.cost import calls
from ...support.services import service_context
from ...support.specs import shell


def worker(status: int, rank: int = 0) -> Process:
    made = Process(shell("exit 0", rank), os.getpid(), -1, -1, -1)
    made.status = status
    return made


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has ended a process since the start."""
    counts = iter(range(100))
    monkeypatch.setattr(memory, "kills", lambda: memory.Kills(next(counts), {}))
    monkeypatch.setattr(death_watch, "KernelLog", lambda: KernelLog("/nowhere"))


@pytest.mark.usefixtures("killed")
@pytest.mark.parametrize(
    ("code", "signalled", "hint", "lines"),
    [
        (-signal.SIGKILL, False, "out of memory", 1),
        (-signal.SIGKILL, True, "", 0),
        (0, False, "", 0),
        (1, False, "", 1),
    ],
)
def test_only_failures_are_looked_into(code: int, signalled: bool, hint: str, lines: int) -> None:
    watching = DeathWatch(service_context())
    ended = worker(9)
    ended.signalled = signalled
    found, text = watching.evidence(ended, code)
    assert (found, len(text.split("\n")) if text else 0) == (hint, lines)
    watching.close()


def test_it_takes_no_time_to_speak_of() -> None:
    """The first time, modules are imported."""
    watching = DeathWatch(service_context())
    watching.evidence(worker(256), 1)
    assert calls(lambda: watching.evidence(worker(256), 1)) < 1000
    watching.close()
