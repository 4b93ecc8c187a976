"""Jobs of several roles, planned in a program."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import dsrun
from dsrun.launcher.api import Exit, Output, Role, Started, launch
from dsrun.launcher.api.errors import JobError, LaunchError, RankError
from dsrun.launcher.api.roles import plan
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.features.roles.plan_file import parsed
from dsrun.launcher.features.roles.plan_spec import find_nodes, roles_spec
from dsrun.launcher.node.workers.calls import CALL
from dsrun.launcher.specs.roles import RolesSpec

from ..support.checkout import CHECKOUT, IMPORTABLE
from ..support.limits import HANG

ROLES = (
    Role("server", "serve", ["--port", "{port.http}"], no_python=True, nodes=1, workers=1,
         devices=2, ports=["http"], ready="http:/health", ready_timeout="1m", ends="never"),
    Role("trainer", "train.py", ["{server.addrs}", 0.5], nodes=2, after=["server"], ends="job",
         elastic=True, env={"A": 1}),
)  # fmt: skip

SAME = b"""\
[[role]]
name = "server"
command = ["serve", "--port", "{port.http}"]
nodes = 1
workers = 1
devices = 2
ports = ["http"]
ready = "http:/health"
ready_timeout = "1m"
ends = "never"

[[role]]
name = "trainer"
script = "train.py"
args = ["{server.addrs}", 0.5]
nodes = 2
after = ["server"]
ends = "job"
elastic = true
env = { A = 1 }
"""


def planned(*roles: Any, **options: object) -> RolesSpec:
    return plan(roles, {"hosts": "h[1-4]:2", "launcher": "ssh", **options})


def fault(*roles: Any, **options: object) -> str:
    with pytest.raises(LaunchError) as caught:
        planned(*roles, **options)
    return str(caught.value)


def test_a_program_and_a_file_describe_the_same_roles() -> None:
    made = planned(*ROLES)
    command = parse(["--host", "h[1-4]:2", "--launcher", "ssh"], {})
    spec = roles_spec(command, parsed("rl.toml", SAME), find_nodes(command))
    for one, other in zip(made.roles, spec.roles, strict=True):
        assert one._replace(job=other.job) == other
        assert one.job._replace(job_id=other.job.job_id) == other.job


def test_a_role_may_be_a_function() -> None:
    def work(number: int) -> int:
        return number

    one, other = planned(
        Role("a", work, [1], nodes=1, ends="job"), Role("b", "b.py", nodes=1, ends="wait")
    ).roles
    assert one.job.plan.program.argv("p", 0) == ["p", "-u", CALL, work.__qualname__]
    assert (one.job.payload != "", other.job.payload) == (True, "")


def test_a_script_is_passed_its_local_rank_on_request() -> None:
    (one,) = planned(Role("a", "a.py", nodes=1, ends="job", local_rank=True)).roles
    assert one.job.plan.program.argv("p", 1) == ["p", "-u", "a.py", "--local_rank=1"]


def test_options_of_the_whole_job(tmp_path: Path) -> None:
    spec = planned(*ROLES, grace="7s", report_file=str(tmp_path / "r"), export={"B": "2"})
    assert spec.job.output.report_file == str(tmp_path / "r")
    assert {one.job.supervision.grace for one in spec.roles} == {7.0}
    assert {one.job.travel.values["B"] for one in spec.roles} == {"2"}


GOOD = Role("a", "a.py", nodes=1, ends="job")


@pytest.mark.parametrize(
    ("roles", "options", "expected"),
    [
        ([], {}, "roles: expected a list of Role, one for each program"),
        (["a.py"], {}, "roles: expected a list of Role, one for each program"),
        ([Role("a", "a.py", nodes=1)], {}, "--program a: ends is missing"),
        ([Role("a", "a.py", ends="job")], {}, "--program a: a role without nodes"),
        ([Role("a", "a.py", "x", ends="job")], {}, "args: expected a list of arguments, not a"),
        ([Role("a", "a.py", (), {"x": 1}, ends="job")], {}, "kwargs: only for a function"),
        ([Role("a", print, module=True)], {}, "module: only for a script, not for a function"),
        ([Role("a", "a.py", nodes=object())], {}, "num_nodes: expected text or a number"),
        ([Role("a", "a.py", stdin="rank0")], {}, "stdin: not available in Python"),
        ([Role("a", "a.py", quiet=True)], {}, "--program a: --quiet: an option of the whole job"),
        ([GOOD], {"ends": "job"}, "--ends: only for a role"),
        ([GOOD], {"nnodes": "1:2"}, "--nnodes 1:2: not with several programs"),
        ([GOOD], {"roles": "x.toml"}, "roles: not available in Python; use launch(roles=...)"),
        ([GOOD, Role("b", "b.py", nodes=4, ends="wait")], {}, "--program b: --num_nodes: 4 wanted"),
    ],
)
def test_errors_are_exceptions(roles: list[Any], options: dict[str, Any], expected: str) -> None:
    assert fault(*roles, **options).startswith(expected)


@pytest.mark.parametrize(
    ("target", "options", "expected"),
    [
        (None, {}, "launch: expected a script, a function, or roles="),
        ("a.py", {"roles": [GOOD]}, "roles: not with a script or a function; each Role has"),
        ("a.py", {"ends": "job", "hosts": "h:1"}, "--ends: only for a job of several roles"),
    ],
)
def test_launch_takes_one_program_or_roles(
    target: str | None, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(LaunchError) as caught:
        launch(target, **options)
    assert str(caught.value).startswith(expected)


def test_a_role_shows_what_it_is() -> None:
    assert dsrun.Role is Role
    assert repr(GOOD) == "Role('a', 'a.py', (), nodes=1, ends='job')"


# -- real jobs ------------------------------------------------------------------------------------

HERE: dict[str, Any] = {"hosts": "localhost:3", "accelerator": "cpu", "grace": 5, "color": "never"}


def server(text: str = "echo serves; exec sleep 1000", **options: Any) -> Role:
    more = {"hosts": "localhost", "slots": "0", "ready": "line:serves", "ends": "never", **options}
    return Role("server", "sh", ["-c", text], no_python=True, **more)


def trainer(target: Any, *args: object) -> Role:
    return Role(
        "trainer", target, args, hosts="localhost", slots="1-2", after=["server"], ends="job"
    )


def test_results_and_events_are_told_by_role(capsys: pytest.CaptureFixture[str]) -> None:
    def work(base: int) -> tuple[str, int]:
        print("at work")
        return os.environ["ROLE_NAME"], base + int(os.environ["RANK"])

    job = launch(roles=[server(), trainer(work, 10)], **HERE)
    seen = list(job.events())
    report = job.wait()
    assert (report.exit_code, report.world_size, report.hosts) == (0, 3, ("localhost",))
    assert {name: one.world_size for name, one in report.roles.items()} == {
        "server": 1,
        "trainer": 2,
    }
    assert job.results(role="trainer") == {0: ("trainer", 10), 1: ("trainer", 11)}
    assert (job.result(1, role="trainer"), job.results(role="server")) == (
        ("trainer", 11),
        {0: None},
    )
    assert [one.role for one in seen if isinstance(one, Started)] == ["server", "trainer"]
    assert sorted((one.role, one.rank) for one in seen if isinstance(one, Exit)) == [
        ("server", 0),
        ("trainer", 0),
        ("trainer", 1),
    ]
    outputs = [one for one in seen if isinstance(one, Output)]
    assert Output(1, 1, b"at work\n", "trainer") in outputs
    assert (job.stdout(0, "server"), job.stdout(1, "trainer")) == ("serves\n", "at work\n")
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "server/localhost:0| serves",
        "trainer/localhost:0| at work",
        "trainer/localhost:1| at work",
    ]
    for role in ("other", ""):
        with pytest.raises(KeyError, match="its roles are server, trainer"):
            job.results(role=role)


def test_what_a_function_of_a_role_raises_is_raised_here() -> None:
    def fail() -> None:
        raise ValueError(os.environ["RANK"])

    job = launch(roles=[server(), trainer(fail)], output=None, **HERE)
    with pytest.raises(RankError, match=r"^trainer: rank \d on localhost: ValueError") as caught:
        job.results(HANG, role="trainer")
    assert (type(caught.value.__cause__), caught.value.role) == (ValueError, "trainer")
    assert set(map(type, job.exceptions(role="trainer").values())) == {ValueError}
    assert job.exceptions(role="server") == {}
    assert job.wait().data["role"] == "trainer"
    assert job.wait().failures[0].rank == caught.value.rank


def sleep() -> None:
    time.sleep(1000)


def test_a_service_that_fails_is_the_cause() -> None:
    job = launch(roles=[server("echo serves; exit 3"), trainer(sleep)], output=None, **HERE)
    report = job.wait(HANG)
    assert (report.exit_code, report.data["role"]) == (3, "server")
    assert report.text.startswith("dsrun: server: rank 0 (localhost")


def test_a_job_of_roles_is_stopped_with_its_block() -> None:
    asleep = Role("sleeper", "sleep", ["1000"], no_python=True, hosts="localhost", slots="1-2",
                  after="server", ends="job")  # fmt: skip
    with launch(roles=[server(), asleep], output=None, **HERE) as job:
        assert any(isinstance(one, Started) and one.role == "sleeper" for one in job.events())
        job.signal(10)
    assert job.report is not None
    assert job.report.cause in {"signal", "failure"}
    # The server may have failed first; the sleeper was stopped as the job was over, then.
    with pytest.raises(JobError):
        job.results(role=job.report.data["role"] or "sleeper")


def test_nodes_tell_late_what_a_role_cannot_do() -> None:
    wrong = Role("wrong", "no-such", no_python=True, hosts="localhost", slots="1", ends="job")
    job = launch(roles=[server(), wrong], output=None, **HERE)
    with pytest.raises(LaunchError, match=r"(?s)role wrong: .*no-such"):
        job.wait(HANG)


def test_the_example_in_python_works() -> None:
    command = [sys.executable, str(CHECKOUT / "examples" / "roles" / "from_python.py")]
    ran = subprocess.run(
        command,
        env={**os.environ, **IMPORTABLE},
        capture_output=True,
        text=True,
        check=True,
        timeout=HANG,
    )
    assert ran.stdout.splitlines()[-1] == "{0: [0, 1, 4], 1: [0, 1, 4]}"
