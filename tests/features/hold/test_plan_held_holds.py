"""Which hold a name means."""

from __future__ import annotations

import os
import re
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.common.poll import READ, ready
from dsrun.launcher.control import local, local_client
from dsrun.launcher.features.hold import plan_held as holds

from ...support.limits import wait_for
from ...support.local_control import new_name, serving
from ...support.own_names import own_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.jobs.runner_server import LocalCaller, Verb

__all__ = ["own_names"]


def started(since: object) -> dict[str, Verb]:
    """What a hold answers that was started then."""

    def status(_: LocalCaller, __: dict[str, Any], ___: list[int]) -> dict[str, Any]:
        return {"since": since}

    return {"status": status, "describe": lambda *_: {"since": since}}


class Silence:
    """A hold that never answers; who has asked it waits for as long as it means to, in no time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._asked = threading.Event()
        self.waits: list[float | None] = []
        monkeypatch.setattr(local_client, "ready", self._ready)

    def __call__(self, *_: object) -> None:
        """Take a request."""
        self._asked.set()

    def _ready(self, fds: list[int], seconds: float | None, event: int = READ) -> list[int]:
        wait_for(lambda: self._asked.is_set() or ready(fds, 0, event), "an answer, or none")
        if not self._asked.is_set():
            return fds
        self._asked.clear()
        self.waits.append(seconds)
        return []


def since(name: str) -> float:
    with holds.find(name) as client:
        return float(client.ask({"do": "describe"})["since"])


def test_a_hold_is_found_by_its_name() -> None:
    with serving(started(1.0), local.HOLD) as one, serving(started(2.0), local.HOLD) as other:
        assert (since(one.name), since(other.name)) == (1.0, 2.0)


@pytest.mark.usefixtures("own_names")
def test_last_is_the_newest_of_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    silence = Silence(monkeypatch)
    with (
        serving(started(3.0), local.HOLD),
        serving(started(4.0), local.HOLD),
        serving(started(2.0), local.HOLD),
        serving(started("not a time"), local.HOLD),
        serving({"status": silence}, local.HOLD),
    ):
        assert since("last") == 4.0
    (seconds,) = silence.waits
    assert seconds is not None
    assert seconds <= holds.PATIENCE


@pytest.mark.parametrize("name", ["", "no such hold", "a\nb", "é", "x" * 99])
def test_a_name_that_no_hold_has(name: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--on {name}: no such hold on this machine; ")):
        holds.find(name)


def test_those_that_run_are_named() -> None:
    with serving(started(1.0), local.HOLD) as served:
        name = new_name()
        with pytest.raises(UsageError, match=rf"--x {name}: .*running: .*{served.name}"):
            holds.find(name, "--x")


@pytest.fixture
def stopped() -> Iterator[str]:
    """The name of a hold whose process is stopped, as by SIGSTOP."""
    name = new_name()
    line = local.listener(local.HOLD, name)
    pid = os.fork()
    if pid == 0:
        line.listen(local.BACKLOG)  # callers see this process behind it
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(pid, os.WUNTRACED)
    line.close()
    yield name
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


@pytest.mark.usefixtures("own_names")
def test_one_that_is_stopped_is_named_with_its_process(stopped: str) -> None:
    for name in (stopped, "last"):
        with pytest.raises(
            NodeError, match=r"--on \S+: the hold does not answer: its process \d+ is"
        ):
            holds.find(name)
