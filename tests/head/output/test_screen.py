"""All that takes the place of a terminal is used as one, and lets a job end."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.features.detached.runner_console import DetachedConsole
from dsrun.launcher.features.jobs.runner_relay import Relay
from dsrun.launcher.features.roles.runner_console import RoleConsole
from dsrun.launcher.head.output.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.head.output.screen import Screen


def terminal(loop: Loop) -> Screen:
    """A console that nobody reads."""
    out, err = (os.open(os.devnull, os.O_WRONLY) for _ in range(2))
    return Console(loop, fds=(out, err), environ={})


def relay(_loop: Loop) -> Screen:
    """A console whose caller has gone."""
    caller = SimpleNamespace(open=False, event=lambda _event: None)
    return Relay(cast("Any", caller))


def detached(loop: Loop) -> Screen:
    """The console of a detached job that still has its terminal."""
    return DetachedConsole(terminal(loop), "info", lambda _: None)


def muted(_loop: Loop) -> Screen:
    """A console without any terminal."""
    return DetachedConsole(None, "critical", lambda _: None)


def of_role(loop: Loop) -> Screen:
    """The console of a role."""
    return RoleConsole(terminal(loop), "trainer", 0)


@pytest.mark.parametrize("made", [terminal, relay, detached, muted, of_role])
def test_a_job_prints_and_ends_on_each(made: Callable[[Loop], Screen]) -> None:
    loop, happened = Loop(), list[str]()
    screen = made(loop)

    def over() -> None:
        happened.append("finished")
        loop.stop()

    screen.on_broken_pipe = lambda: None
    screen.label(0, "n0:0| ", (1, 2))
    screen.log("begins")
    screen.status("starting")
    screen.status("")
    screen.feed(0, 1, b"a line\n", lambda: happened.append("written"))
    assert (screen.folds, screen.has_lost_output) == (False, False)
    screen.print_report("dsrun: rank 0 exited with code 1")
    screen.flush(lambda: screen.finish(over))
    if "finished" not in happened:
        loop.run()
    assert sorted(happened) == ["finished", "written"]
