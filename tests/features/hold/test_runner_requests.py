"""What a hold is asked, and what it answers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.features.hold.runner import HoldPhase
from dsrun.launcher.features.hold.runner_requests import fitted
from dsrun.launcher.specs import codec
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.host_updates import HostUpdates
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Origin, Plan, by_task, lay_out
from dsrun.launcher.specs.policies import SupervisionPolicy, WorkerPolicy
from dsrun.launcher.specs.program import Program
from dsrun.launcher.specs.roles import RoleSpec, RolesSpec

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...support.fake_hold import FakeHold

    HoldOf = Callable[..., FakeHold]

PLAN = Plan(lay_out([Host("n0", (0,))]), Program("x.py"), "local", None, None)


def test_a_description_is_answered_once_the_nodes_are_known(hold_of: HoldOf) -> None:
    preloading = WorkerPolicy(preload=("torch",))
    fake = hold_of(Host("n0"), Host("n1", (3,)), workers=preloading)
    client = fake.client()
    assert client.ask("describe") is None
    fake.ready()
    answer = client.answer_to(1)
    assert answer is not None
    assert (answer["name"], answer["job"], answer["version"]) == ("lab", "hold-1", __version__)
    assert (answer["launcher"], answer["accelerator"]) == ("ssh", "cuda")
    assert answer["preload"] == ["torch"]
    assert answer["hosts"] == [
        {"name": "n0", "slots": [0, 1], "state": "free", "reason": ""},
        {"name": "n1", "slots": [3], "state": "free", "reason": ""},
    ]
    assert codec.decode(BackendSettings, answer["settings"]) == BackendSettings()


def test_a_description_of_a_hold_that_cannot_start(hold_of: HoldOf) -> None:
    fake = hold_of("n0")
    client = fake.client()
    client.ask("describe")
    fake.job.node("n0").hello(problems=("no such folder",))
    fake.job.step()
    answer = client.answer_to(1)
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 69)
    assert "no such folder" in answer["error"]


def test_the_state_of_hosts_and_runs(hold_of: HoldOf) -> None:
    fake = hold_of("n0", "n1").ready()
    client = fake.client()
    client.run("one", {"n0": [1]})
    client.run("two", {"n0": [0, 1]})
    fake.job.node("n1").leaves()
    answer = client.ask("status")
    assert answer is not None
    assert (answer["kind"], answer["state"]) == ("hold", "serving")
    assert [(host["name"], host["state"]) for host in answer["hosts"]] == [
        ("n0", "busy"),
        ("n1", "lost"),
    ]
    assert answer["hosts"][1]["reason"].startswith("the connection to its node launcher ended")
    one, two = answer["runs"]
    assert (one["job"], one["state"], one["ranks"], one["hosts"]) == ("one", "running", 1, ["n0"])
    assert (two["job"], two["state"], two["since"]) == ("two", "waiting", None)
    assert answer["last"].startswith("holding 2 nodes")
    logs = client.ask("logs")
    assert logs is not None
    assert logs["lines"][0].startswith("holding 2 nodes")


def test_a_release_is_answered_before_it_begins(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    answer = client.ask("release")
    assert answer is not None
    assert (answer["ok"], answer["name"], answer["runs"]) == (True, "lab", 0)
    assert fake.hold.phase is HoldPhase.ENDING
    refused = client.ask("describe")
    assert refused is not None
    assert refused["error"] == "hold lab is ending"


def test_runs_of_others_are_named_by_their_jobs(hold_of: HoldOf) -> None:
    fake = hold_of("n0").ready()
    client, other = fake.client(), fake.client()
    client.run("one", {"n0": [0, 1]})
    assert other.ask("stop") == {"ok": True, "id": 1}
    assert "one" in fake.hold.runs, "not the caller's own"
    refused = other.ask("stop", job="two")
    assert refused is not None
    assert refused["error"] == "no job two on hold lab; running: one"
    assert other.ask("stop", job="one") == {"ok": True, "id": 3}
    assert client.wait(1)["code"] == 143


@pytest.mark.parametrize("number", [0, 65, "9", True, None])
def test_only_signals_are_signals(hold_of: HoldOf, number: object) -> None:
    answer = hold_of("n0").ready().client().ask("signal", number=number)
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 2)


def test_the_same_job_cannot_run_twice(hold_of: HoldOf) -> None:
    client = hold_of("n0").ready().client()
    client.run("one", {"n0": [0]})
    again = client.run("one", {"n0": [1]})
    assert again is not None
    assert "job one already runs on hold lab" in again["error"]


@pytest.mark.parametrize("fields", [{"busy": "perhaps"}, {"spec": {}}, {"spec": 7}])
def test_a_request_that_is_not_valid(hold_of: HoldOf, fields: dict[str, Any]) -> None:
    fake = hold_of("n0").ready()
    answer = fake.client().ask("run", (0, 1, 2), **fields)
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert fake.hold.runs == {}


def test_streams_are_needed(hold_of: HoldOf) -> None:
    spec = codec.encode(JobSpec("one", PLAN, "/"))
    answer = hold_of("n0").ready().client().ask("run", (0, 1), spec=spec)
    assert answer is not None
    assert answer["error"] == "invalid request to run a job"


def test_a_job_is_reached_and_watched_as_the_hold_does_it(hold_of: HoldOf) -> None:
    own = SupervisionPolicy(heartbeat_timeout=40.0)
    preloading = WorkerPolicy(preload=("torch",))
    hold = hold_of("n0", supervision=own, workers=preloading).ready().hold
    theirs = SupervisionPolicy(heartbeat_timeout=1.0, grace=3.0)
    spec = fitted(hold, JobSpec("one", PLAN, "/work", supervision=theirs))
    assert (spec.held, spec.plan.launcher, spec.workdir) == (True, "ssh", "/work")
    assert (spec.supervision.heartbeat_timeout, spec.supervision.grace) == (40.0, 3.0)
    assert spec.workers.preload == ("torch",)
    named = WorkerPolicy(preload=("numpy",))
    assert fitted(hold, spec._replace(workers=named)).workers.preload == ("numpy",)
    bare = spec._replace(plan=PLAN._replace(program=Program("true", no_python=True)))
    assert fitted(hold, bare).workers.preload == ()


def test_a_job_without_a_python_of_its_own_has_that_of_the_hold(hold_of: HoldOf) -> None:
    hold = hold_of("n0").ready().hold
    job = JobSpec("one", PLAN, "/work")
    assert fitted(hold, job).plan.program.project_python == ""
    hold.spec = hold.spec._replace(job=on_python(hold.spec.job, "/env/bin/python", "VIRTUAL_ENV"))
    one = fitted(hold, job)
    note = "workers run on /env/bin/python, which the hold chose (VIRTUAL_ENV)"
    assert one.plan.program.project_python == "/env/bin/python"
    assert one.origin == Origin(python="VIRTUAL_ENV", notes=(note,))
    named = job._replace(origin=Origin(python="--python"))
    assert fitted(hold, named).plan.program.project_python == ""
    theirs = on_python(job, "/repo/.venv/bin/python", ".venv")
    assert fitted(hold, theirs).plan.program.project_python == "/repo/.venv/bin/python"
    function = job._replace(payload="AA==")
    assert fitted(hold, function).plan.program.project_python == ""


def on_python(job: JobSpec, path: str, origin: str) -> JobSpec:
    program = job.plan.program._replace(project_python=path)
    return job._replace(plan=job.plan._replace(program=program), origin=Origin(python=origin))


@pytest.mark.parametrize(
    "spec",
    [
        JobSpec("one", by_task(PLAN), "/"),
        JobSpec("one", PLAN._replace(nodes=()), "/"),
        JobSpec("one", PLAN, "/", only=1),
        JobSpec("one", PLAN, "/", updates=HostUpdates("", "hosts")),
    ],
)
def test_jobs_that_held_nodes_cannot_run(hold_of: HoldOf, spec: JobSpec) -> None:
    answer = hold_of("n0").ready().client().ask("run", (0, 1, 2), spec=codec.encode(spec))
    assert answer is not None
    assert "held nodes cannot run this job" in answer["error"]


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ((), "it has no roles"),
        ((1,), "role server: n0 has slots that the job does not have"),
    ],
)
def test_a_job_of_roles_has_them_on_its_own_slots(
    hold_of: HoldOf, slots: tuple[int, ...], message: str
) -> None:
    fake = hold_of("n0").ready()
    client = fake.client()
    job = JobSpec("one", PLAN, "/work")
    server = job._replace(plan=PLAN._replace(nodes=lay_out([Host("n0", slots)])))
    roles = (RoleSpec("server", server, "job"),) if slots else ()
    fds = [os.open(os.devnull, os.O_RDWR) for _ in range(3)]
    spec = codec.encode(RolesSpec(job, roles))
    answer = client.ask("run", fds, spec=spec, roles=True)
    for fd in fds:
        os.close(fd)
    assert answer is not None
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert answer["error"].endswith(message)
    assert (fake.hold.runs, fake.hold.phase) == ({}, HoldPhase.SERVING)
