"""Sessions that are lost, and not ended by their host, when the node is reached again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.events import SessionEnded, SessionStarted
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import lay_out

from ..support.leaks import open_files
from .commands import DIAL, go_on, install

if TYPE_CHECKING:
    from pathlib import Path

NODES = lay_out([Host("n1", (0,))])


@pytest.mark.parametrize(("launcher", "program"), [("openssh", "ssh"), ("pdsh", "pdsh")])
def test_it_is_ended_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, program: str
) -> None:
    """Nor is its end taken for that of the session that has followed."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    install(tmp_path, program, '[ "$1" = -G ] || exec sleep 600')
    backend, loop = backends.load(launcher, BackendSettings(sys.executable, "/")), Loop()
    emitted: list[object] = []
    watched: list[int] = []
    opened: list[int] = []
    for _ in range(3):
        backend.start(NODES, loop, emitted.append, DIAL)
        watched.append(len(loop._calls))
        go_on(loop, lambda: len(loop._calls) == watched[0])
        opened.append(len(open_files()))
        for event in emitted:
            if isinstance(event, SessionStarted):
                event.stream.close()
    assert not any(isinstance(event, SessionEnded) for event in emitted)
    assert opened == [opened[0]] * 3
    backend.close()
    go_on(loop)


def test_its_late_end_here_is_not_that_of_the_next_one(tmp_path: Path) -> None:
    install(tmp_path, "python", "cat")
    backend = backends.load("local", BackendSettings(str(tmp_path / "python"), "/"))
    loop, emitted = Loop(), list[object]()
    for _ in range(2):
        backend.start(NODES, loop, emitted.append, None)
    first, second = emitted
    assert isinstance(first, SessionStarted)
    assert isinstance(second, SessionStarted)
    watched = len(loop._calls)
    first.stream.close()
    go_on(loop, lambda: len(loop._calls) == watched / 2)
    assert emitted == [first, second]
    second.stream.close()
    go_on(loop)
    assert [type(event) for event in emitted[2:]] == [SessionEnded]
