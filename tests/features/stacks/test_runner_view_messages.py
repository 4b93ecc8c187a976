"""Stacks between a runner and a command on the same machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import DsrunError, UsageError
from dsrun.launcher.control import local
from dsrun.launcher.control.local_client import LocalClient, connect
from dsrun.launcher.features.stacks import runner_view_messages as view_messages

from ...support.local_control import serving
from ...support.stacks import FETCH, NEXT, collective, process, ranks, view

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.features.jobs.runner_server import LocalCaller

VIEWS = ranks(
    view(0, NEXT, children=((process(0, 5001), FETCH),), collectives=(collective(0, 3),)), view(1)
)


def asked(verb: Callable[..., Any]) -> dict[int, Any]:
    with serving({"stacks": verb}, local.JOB) as server:
        client = connect(local.JOB, server.name)
        assert isinstance(client, LocalClient)
        with client:
            return view_messages.ask(client, {"ranks": []}, 1.0)


def test_views_arrive_as_they_were() -> None:
    def answer(caller: LocalCaller, _request: Any, _fds: Any) -> dict[str, Any]:
        view_messages.send(caller, reversed(VIEWS.values()))
        return {}

    assert asked(answer) == VIEWS


def test_a_refusal() -> None:
    def answer(*_: Any) -> None:
        raise UsageError("no worker is running: the job is starting")

    with pytest.raises(UsageError, match="no worker is running"):
        asked(answer)


def test_the_job_ends_meanwhile() -> None:
    def answer(caller: LocalCaller, *_: Any) -> None:
        caller.close()

    with pytest.raises(DsrunError, match="exited before"):
        asked(answer)


def test_too_much_is_left_out() -> None:
    class Full:
        """A caller that does not read."""

        pending = view_messages.MOST_PENDING

        def __init__(self) -> None:
            self.got: list[Any] = []

        def event(self, message: dict[str, Any]) -> None:
            self.got.append(message["view"])

    caller: Any = Full()
    view_messages.send(caller, VIEWS.values())
    assert [one.problem for one in caller.got] == ["left out: too much to send"] * 2
    assert [one.processes for one in caller.got] == [(), ()]
