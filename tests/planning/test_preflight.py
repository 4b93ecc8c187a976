"""What this machine has to have where it is a node, and nobody asks of it where it is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.planning.preflight import check
from dsrun.launcher.specs.backend import DialIn
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.job import JobSpec
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.policies import OutputPolicy, WorkerPolicy
from dsrun.launcher.specs.program import Program

from ..support.local_control import needs_root
from ..support.other_user import WORDS, open_folder, other_user

if TYPE_CHECKING:
    from pathlib import Path


def spec(folder: Path, program: Program, launcher: str = "local", host: str = "w0") -> JobSpec:
    plan = Plan(lay_out([Host(host, (0,))]), program, launcher, None, None)
    return JobSpec("j", plan, str(folder))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, with a script, and a program that PATH lacks."""
    for name in ("x.py", "env"):
        (tmp_path / name).touch()
    (tmp_path / "run").write_text("#!/bin/sh\n")
    (tmp_path / "run").chmod(0o755)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(
    "program",
    [
        Program("x.py"),
        Program("./x.py"),
        Program("no.such.module", module=True),
        Program("sh", no_python=True),
        Program("no-such-program", no_python=True),  # PATH on the node may have it
        Program("./run", no_python=True),
    ],
)
def test_what_is_there_or_is_for_the_node_to_find(folder: Path, program: Program) -> None:
    check(spec(folder, program))


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        (Program("y.py"), "no such script: {folder}/y.py"),
        (Program("X.py"), "no such script: {folder}/X.py (did you mean x.py?)"),
        (Program("help"), "no such script: {folder}/help; dsrun --help shows the options"),
        (Program("launch"), "no such script: {folder}/launch; leave out launch: dsrun [opt"),
        (
            Program("n1,n2"),
            "no such script: {folder}/n1,n2; if these are hosts, write --host n1,n2",
        ),
        (
            Program("s3://a/b.py"),
            "no such script: {folder}/s3://a/b.py; download it first: a script is a file",
        ),
        (Program("./y", no_python=True), "no such script: {folder}/y"),
        (
            Program("run", no_python=True),
            "--no_python run: no such program on PATH; ./run is the one in this folder",
        ),
        (Program("./x.py", no_python=True), "--no_python {folder}/x.py: "),
    ],
)
def test_what_is_not(folder: Path, program: Program, problem: str) -> None:
    expected = problem.format(folder=folder)
    for launcher, host in (("local", "w0"), ("none", "w0"), ("ssh", "localhost")):
        with pytest.raises(UsageError) as caught:
            check(spec(folder, program, launcher, host))
        assert str(caught.value).startswith(expected)
    check(spec(folder, program, "ssh"))  # of other machines only they know


def test_folders_and_files_beside_the_script(folder: Path) -> None:
    usual = spec(folder, Program("x.py"))
    check(usual._replace(workers=WorkerPolicy(str(folder / "env")), output=OutputPolicy()))
    check(usual._replace(output=OutputPolicy(log_dir="logs")))
    problems = {
        "--workdir /nowhere: no such folder": usual._replace(workdir="/nowhere"),
        "--venv_script /no: no such file": usual._replace(workers=WorkerPolicy("/no")),
        f"--log_dir {folder}/env: is a file; name a folder": usual._replace(
            output=OutputPolicy(log_dir="env")
        ),
    }
    for problem, one in problems.items():
        with pytest.raises(UsageError) as caught:
            check(one)
        assert str(caught.value) == problem


def test_a_script_that_a_virtual_environment_may_bring_is_not_looked_for(folder: Path) -> None:
    check(spec(folder, Program("y.py"))._replace(workers=WorkerPolicy(str(folder / "env"))))


def test_a_secret_is_looked_at_where_nodes_share_one(folder: Path) -> None:
    (folder / "open").write_text("secret")
    (folder / "open").chmod(0o644)
    own = DialIn(token_file=str(folder / "open"))
    check(spec(folder, Program("x.py"))._replace(dial_in=own))
    with pytest.raises(UsageError, match="other users can read it"):
        check(spec(folder, Program("x.py"), "none")._replace(dial_in=own))


@needs_root
def test_what_is_in_a_closed_folder_is_not_missing() -> None:
    """A user who may not enter a folder is told which one, for whatever is in it."""
    with open_folder() as top:
        closed = top / "closed"
        closed.mkdir(mode=0o700)
        (closed / "x.py").touch()
        why = f"{WORDS} may not enter {closed}: no x permission (drwx------, owned by user root)"
        usual = spec(top, Program(f"{closed}/x.py"))
        cases = {
            f"script {closed}/x.py: ": usual,
            f"script {closed}/none.py: ": spec(top, Program(f"{closed}/none.py")),
            f"script {closed}/run: ": spec(top, Program(f"{closed}/run", no_python=True)),
            f"{closed}: ": spec(top, Program(str(closed))),
            f"--workdir {closed}/in: ": usual._replace(workdir=f"{closed}/in"),
            f"--venv_script {closed}/venv: ": usual._replace(
                workers=WorkerPolicy(f"{closed}/venv")
            ),
        }
        for begins, one in cases.items():
            with other_user(), pytest.raises(UsageError) as caught:
                check(one)
            assert str(caught.value) == f"{begins}permission denied: {why}"
        (top / "words").write_text("echo\n")
        (top / "words").chmod(0o755)
        with pytest.raises(UsageError, match="nor a script that begins with #!"):
            check(spec(top, Program("./words", no_python=True)))
