"""Thousands of sessions that begin: signals are heard of meanwhile, and what has no room waits."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.events import SessionEnded, SessionStarted
from dsrun.launcher.backends.ssh import paramiko
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from .commands import go_on, install

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NODES = lay_out([Host(f"no-such-host-{number}.invalid", (0,)) for number in range(200)])


@pytest.mark.parametrize("launcher", ["ssh", "openssh"])
def test_a_signal_is_heard_of_before_all_have_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """What is closed then begins no more."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    install(tmp_path, "ssh", '[ "$1" = -G ] || exec sleep 600')
    backend, loop = backends.load(launcher, BackendSettings(sys.executable, "/")), Loop()
    emitted: list[Any] = []
    loop.on_signals([signal.SIGUSR1], lambda _: loop.stop())
    os.kill(os.getpid(), signal.SIGUSR1)
    backend.start(NODES, loop, emitted.append, None)
    loop.run()
    assert 0 < count_of(emitted)(SessionStarted) < 4
    backend.close()
    for event in emitted:
        if isinstance(event, SessionStarted):
            event.stream.close()
    kinds = SessionStarted, SessionEnded
    go_on(loop, lambda: len({*map(count_of(emitted), kinds)}) == 1)
    assert count_of(emitted)(SessionStarted) < 4


def count_of(emitted: list[Any]) -> Callable[[type], int]:
    """Return what counts the events of a kind."""
    return lambda kind: sum(isinstance(one, kind) for one in emitted)


def of_paramiko() -> tuple[Loop, list[Any]]:
    """Start ten of the nodes; returns the loop, and a list of what is emitted."""
    loop, emitted = Loop(), list[Any]()
    backend = backends.load("ssh", BackendSettings(sys.executable, "/"))
    backend.start(NODES[:10], loop, emitted.append, None)
    return loop, emitted


def ended(emitted: list[Any]) -> list[str]:
    """Return the causes of the sessions that have ended, and close what is open."""
    for one in emitted:
        if isinstance(one, SessionStarted):
            one.stream.close()
    return [one.cause for one in emitted if isinstance(one, SessionEnded)]


def test_sessions_wait_for_others_to_be_open_or_to_have_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paramiko, "FAN_OUT", 2)
    loop, emitted = of_paramiko()
    most = 0

    def all_ended() -> bool:
        nonlocal most
        names = [one.name for one in threading.enumerate() if one.name.startswith("ssh-")]
        most = max(most, len(names))
        return count_of(emitted)(SessionEnded) == 10

    go_on(loop, all_ended)
    assert all("does not resolve" in cause for cause in ended(emitted))
    assert most < 6, "two, and those that have failed and are about to end"


def test_without_more_threads_a_session_fails_and_not_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        loop, emitted = of_paramiko()
        go_on(loop, lambda: count_of(emitted)(SessionEnded) == 10)
    assert ended(emitted) == ["the ssh session failed: can't start new thread"] * 10
