"""Jobs of several roles, planned in a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dsrun
from dsrun.launcher.api import Role, launch
from dsrun.launcher.api.errors import LaunchError
from dsrun.launcher.api.roles import plan
from dsrun.launcher.cli.parser import parse
from dsrun.launcher.node.workers.calls import CALL
from dsrun.launcher.planning.roles.file import parsed
from dsrun.launcher.planning.roles.spec import find_nodes, roles_spec
from dsrun.launcher.specs.roles import RolesSpec

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
        ([Role("a", "a.py", stdin="rank0")], {}, "stdin: not an option of a program"),
        ([Role("a", "a.py", quiet=True)], {}, "--program a: --quiet: an option of the whole job"),
        ([GOOD], {"ends": "job"}, "--ends: only for a role"),
        ([GOOD], {"nnodes": "1:2"}, "--nnodes 1:2: not with several programs"),
        ([GOOD], {"roles": "x.toml"}, "roles: not an option of a program; use launch(roles=...)"),
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
        ("a.py", {"ends": "job", "hosts": "h:1"}, "--ends: only for a role: launch(roles="),
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
