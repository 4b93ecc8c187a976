"""How devices are used, asked by a child that may hang or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control.job_messages import DeviceUsage
from dsrun.launcher.features.jobs import node_usage as device_usage
from dsrun.launcher.features.jobs.node_usage import DeviceQuestion
from dsrun.launcher.node.machine.blocking import Calls

from ...support.checkout import IMPORTABLE
from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Devices = tuple[DeviceUsage, ...]

pytestmark = pytest.mark.usefixtures("adopting")

ONE = DeviceUsage(1, "GPU-x", None, 5, 10)
HERE = "/dev/null"


@pytest.fixture(autouse=True)
def _no_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child answers in time, however busy this machine is."""
    monkeypatch.setattr(device_usage, "SECONDS", HANG)


class Asked:
    """A question, its answers, and a loop whose clock can be moved."""

    def __init__(self, ask: Callable[[], Devices], driver: str = HERE) -> None:
        self.skipped = 0.0
        self.loop = Loop(lambda: time.monotonic() + self.skipped)
        self.calls = Calls(self.loop)
        self.question = DeviceQuestion(self.calls, ask, driver)
        self.answers: list[Devices] = []

    def ask(self) -> None:
        self.question.ask(self._answered)

    def _answered(self, devices: Devices) -> None:
        self.answers.append(devices)
        self.loop.stop()

    def reap(self) -> None:
        """Reap the child, as the session does."""
        pid = self.question.pid
        os.waitpid(pid, 0)
        self.calls.on_reaped({pid: 0})


def hang() -> Devices:
    signal.pause()
    return ()


def die() -> Devices:
    os.kill(os.getpid(), signal.SIGKILL)
    return ()


def test_the_answer_of_the_child_comes_back() -> None:
    asked = Asked(lambda: (ONE, ONE))
    asked.ask()
    asked.ask()  # while the child is busy: the same answer serves both
    asked.loop.run()
    assert asked.answers == [(ONE, ONE)] * 2
    asked.reap()
    asked.ask()
    asked.loop.run()
    assert asked.answers == [(ONE, ONE)] * 3
    asked.reap()
    assert asked.question.pid == 0


def test_a_child_that_hangs_is_killed_and_not_asked_twice() -> None:
    asked = Asked(hang)
    asked.ask()
    asked.skipped = device_usage.SECONDS
    asked.loop.run()
    assert asked.answers == [()]
    asked.ask()  # it is not reaped yet: at once, without another child
    assert asked.answers == [(), ()]
    asked.reap()


def test_a_child_that_dies_answers_nothing() -> None:
    asked = Asked(die)
    asked.ask()
    asked.loop.run()
    assert asked.answers == [()]
    asked.reap()


def test_an_answer_without_sense_is_none() -> None:
    nonsense: Any = [1]
    asked = Asked(lambda: nonsense)
    asked.ask()
    asked.loop.run()
    assert asked.answers == [()]
    asked.reap()


def test_without_a_driver_nothing_is_forked() -> None:
    asked = Asked(hang, "/dev/none")
    asked.ask()
    assert asked.answers == [()]
    assert asked.question.pid == 0


def test_nothing_is_answered_once_it_is_closed() -> None:
    asked = Asked(hang)
    asked.ask()
    asked.calls.close()
    asked.calls.close()
    assert asked.answers == []
    asked.reap()


def test_what_cannot_be_read_is_zero() -> None:
    assert all(one.used <= one.total for one in device_usage.read())


NVML = """
from types import SimpleNamespace
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "580.1"
def nvmlDeviceGetCount(): return 1
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetUUID(_): return "GPU-x"
def nvmlDeviceGetUtilizationRates(_): return SimpleNamespace(gpu=97)
def nvmlDeviceGetMemoryInfo(_): return SimpleNamespace(used=5, total=10)
"""


def test_the_module_is_found_in_folders_that_this_process_does_not_have(tmp_path: Path) -> None:
    """A node launcher is started with `-S`."""
    (tmp_path / "pynvml.py").write_text(NVML)
    code = (
        f"from dsrun.launcher.features.jobs.node_usage import read\n"
        f"print(read(), read([{str(tmp_path)!r}]) == ((0, 'GPU-x', 97, 5, 10),))"
    )
    argv = [sys.executable, "-S", "-c", code]
    environ = {**os.environ, **IMPORTABLE}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "() True\n"
