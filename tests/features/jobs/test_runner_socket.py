"""The socket of a running job: what it costs, who may ask, and its end."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import local
from dsrun.launcher.features.jobs.runner_socket import RunAccess, RunHistory
from dsrun.launcher.head.doors import VERBS, JobVerb
from dsrun.launcher.head.run.events import Exit, RanksActive, Round

from ...support.activity import Worked
from ...support.asked_run import AskedRun, new_job_id
from ...support.checkout import IMPORTABLE
from ...support.local_control import ended

if TYPE_CHECKING:
    from collections.abc import Callable

    from ...support.fake_fleet import FakeFleet

    AskedOf = Callable[..., AskedRun]


def test_a_job_can_be_asked_by_several_callers(asked: AskedOf) -> None:
    job = asked("n0")
    first, second = job.call(), job.call()
    for line in (first, second, first):
        ((_, answer),) = job.ask(line, do="status")
        assert (answer["ok"], answer["job_id"]) == (True, job.run.spec.job_id)


def test_nothing_that_answers_is_imported_before_it_is_asked() -> None:
    code = """
import sys
from dsrun.launcher.features.jobs import runner_socket as job_socket
assert "status" in job_socket.verbs_of(None, None)
print([name for name in sys.modules if "jobs.runner_server" in name or "request" in name])
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], env=IMPORTABLE, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


def test_its_end_is_that_of_all_connections_and_of_the_name(asked: AskedOf) -> None:
    job = asked("n0")
    line = job.call()
    job.ask(line, do="status")
    job.socket.close()
    job.socket.close()
    assert ended(line)
    local.listener(local.JOB, job.run.spec.job_id).close()  # the name is free


def test_one_that_nobody_has_asked_ends_as_well(asked: AskedOf) -> None:
    job = asked("n0")
    job.socket.close()
    local.listener(local.JOB, job.run.spec.job_id).close()


def test_a_job_whose_name_is_taken_runs_without(fleet_of: Callable[..., FakeFleet]) -> None:
    fleet, job_id = fleet_of("n0"), new_job_id()
    with closing(local.listener(local.JOB, job_id)):
        run = fleet.prepare(job_id=job_id)
        job = AskedRun(fleet, run)
    run.start()
    fleet.begin_workers(run)
    assert run.state.started
    (why,) = [text for text in fleet.said("debug") if "dsrun-job" in text]
    assert why == "dsrun-job cannot reach this job: Address already in use"
    job.prints("n0", 0, b"x\n")
    assert job.seen.tail.last_line(0) == "x"
    job.close()


@pytest.mark.parametrize("request_", [{"do": "no"}, {}, {"do": 3}])
def test_what_is_not_a_request_is_refused(asked: AskedOf, request_: dict[str, object]) -> None:
    assert "expected one of status, usage, stacks, signal" in asked("n0").error(**request_)


@pytest.mark.parametrize(
    ("do", "fields", "why"),
    [
        ("status", {"role": "server"}, "--role server: this job has one program"),
        ("restart", {}, "only a role can be started again, with --role"),
    ],
)
def test_a_job_of_one_program_has_no_roles(
    asked: AskedOf, do: str, fields: dict[str, str], why: str
) -> None:
    assert asked("n0").error(do=do, **fields) == why


def where(run: RunAccess, _caller: object, request: dict[str, str], _fds: object) -> dict[str, str]:
    """Answer as a verb: where a run is."""
    return {"hosts": ",".join(node.name for node in run.view().nodes), "asks": request["asks"]}


def test_a_row_adds_a_verb(fleet_of: Callable[..., FakeFleet]) -> None:
    fleet = fleet_of("n0", "n1")
    run = fleet.run(job_id=new_job_id())
    job = AskedRun(fleet, run, {**VERBS, "where": JobVerb(f"{__name__}:where")})
    answer = job.answer(do="where", asks="me")
    assert (answer["hosts"], answer["asks"]) == ("n0,n1", "me")
    assert job.error(do="where", role="x") == "--role x: this job has one program"
    assert job.error(do="no").endswith("restart, where, wait")
    job.close()


def test_another_round_has_ends_and_idle_times_of_its_own() -> None:
    seen = RunHistory(lambda: 7.0)
    active, ended = Worked(0, 1).says(), Exit(1, "n0", 41, 3, False, "")
    happens = (RanksActive("n0", active), ended)
    for event in happens:
        seen.on_event(event)
    assert (seen.idle, seen.exits) == ({0: 0.0, 1: 0.0}, {1: (3, False)})
    again = Round(2, 1, 2, ("n0",))
    seen.on_event(again)
    assert (seen.idle, seen.exits, seen.round, seen.restarts) == ({}, {}, 2, 1)
    assert list(seen.past) == [(7.0, ended), (7.0, again)]
