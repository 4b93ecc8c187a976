"""The stacks of a job, for the program that has launched it."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.api.errors import JobError
from dsrun.launcher.api.stacks import read
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.control import local
from dsrun.launcher.features.stacks import runner_view_messages as view_messages

from ..support import schemas
from ..support.local_control import new_name, serving
from ..support.stacks import LOAD, ranks, view


def answer(caller: Any, request: dict[str, Any], _fds: Any) -> dict[str, Any]:
    if request["native"]:
        raise UsageError("no worker is running: the job is starting")
    view_messages.send(caller, ranks(view(0), view(1, LOAD)).values())
    return {}


def test_stacks_of_a_job() -> None:
    with serving({"stacks": answer}, local.JOB) as server:
        found = read(server.name)
    assert found.odd == (1,)
    assert found.sentence.endswith("rank 1 (n0) is in load_batch (data.py:88)")
    assert found.text.startswith(found.sentence)
    assert schemas.faults("stacks", found.fields) == []


def test_a_refusal_is_an_error() -> None:
    running = serving({"stacks": answer}, local.JOB)
    refused = pytest.raises(JobError, match="no worker is running")
    with running as server, refused as error:
        read(server.name, native=True)
    assert error.value.exit_code == 2


def test_a_job_that_has_ended() -> None:
    with pytest.raises(JobError, match="it is not running"):
        read(new_name())


def test_a_role_is_asked_for_where_one_is_named() -> None:
    asked: list[object] = []

    def note(caller: Any, request: dict[str, Any], fds: Any) -> dict[str, Any]:
        asked.append(request.get("role"))
        return answer(caller, request, fds)

    with serving({"stacks": note}, local.JOB) as server:
        read(server.name)
        read(server.name, role="trainer")
    assert asked == [None, "trainer"]
