"""The checks of what a user names, as their process tells of them."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher import __version__
from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.features.quick_check.node_pythons import problem
from dsrun.launcher.node.checks import preflight
from dsrun.launcher.node.checks.file_checks import check, environment_of, restored, write
from dsrun.launcher.node.machine.devices import NodeDevices
from dsrun.launcher.node.workers.prepare import FileFindings
from dsrun.launcher.specs.program import Program

from ...support.tasks import task_of

if TYPE_CHECKING:
    from pathlib import Path


def task(tmp_path: Path, **fields: Any) -> NodeJob:
    """A task whose script is there."""
    (tmp_path / "w.py").write_text("import torch\n")
    usual: dict[str, Any] = {
        "dsrun": __version__,
        "job_id": "j",
        "host": "n0",
        "program": Program("w.py"),
        "workdir": str(tmp_path),
        "env": {"DSRUN_ACCELERATOR": "cpu"},
        "slots": (0,),
        "port": None,
    }
    return task_of(**usual | fields)


def told(one: NodeJob) -> tuple[list[str], FileFindings]:
    """What the process writes: paths, and what it has found."""
    pipe = io.StringIO()
    write(one, None, pipe)
    *paths, last = map(json.loads, pipe.getvalue().splitlines())
    return paths, restored(last)


def test_each_path_is_told_before_it_is_touched(tmp_path: Path) -> None:
    one = task(tmp_path, log_dir="logs", facts=True)
    paths, _ = told(one)
    workdir, logs = str(tmp_path), f"{tmp_path}/logs"
    assert paths[:3] == [workdir, f"{sys.executable} or {workdir}/w.py", logs]
    assert {workdir, f"{logs}/j", "/dev/shm"} <= set(paths[3:])
    assert (tmp_path / "logs").is_dir()


def test_python_is_searched_folder_by_folder(tmp_path: Path) -> None:
    program = Program("w.py", python="python9")
    paths, found = told(task(tmp_path, program=program, base={"PATH": "/a:/b"}))
    assert paths[1:3] == ["/a/python9", "/b/python9"]
    assert found.problems == (problem("/a/python9", ["/a", "/b"]),)


def test_python_is_not_searched_in_a_relative_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "python9").symlink_to(sys.executable)
    program = Program("w.py", python="python9")
    for path, missing in ((":.:/a", "/a/python9"), (".", "/python9")):
        _, found = told(task(tmp_path, program=program, base={"PATH": path}))
        assert found.problems == (problem(missing, ["/a"]),)


def test_a_program_is_searched_on_the_path_that_is_sent(tmp_path: Path) -> None:
    (tmp_path / "serve").symlink_to("/bin/sh")
    program = Program("serve", no_python=True)
    _, found = told(task(tmp_path, program=program, env={"PATH": f"/a:{tmp_path}"}))
    assert found.problems == ()


def test_what_was_found_comes_through_the_pipe(tmp_path: Path) -> None:
    one = task(tmp_path, facts=True, base={"PATH": os.environ["PATH"], "X": "\udcff"})
    _, found = told(one)
    direct = check(one)
    assert found.facts is not None
    assert direct.facts is not None
    assert found[:3] == direct[:3]
    assert (found.facts.imports_torch, found.facts.script) == (True, direct.facts.script)
    assert found.base["X"] == "\udcff"


def test_a_task_with_a_problem_has_no_facts_and_no_log_folder(tmp_path: Path) -> None:
    _, found = told(task(tmp_path, program=Program("none.py"), log_dir="logs", facts=True))
    assert found.problems == (f"no such script: {tmp_path}/none.py",)
    assert found.facts is None
    assert not (tmp_path / "logs").exists()


def test_a_fault_is_told_with_its_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(workdir: bytes) -> str:
        raise ZeroDivisionError(workdir)

    monkeypatch.setattr(preflight, "folder_problem", broken)
    pipe = io.StringIO()
    write(task(tmp_path), None, pipe)
    assert "ZeroDivisionError" in json.loads(pipe.getvalue().splitlines()[-1])["raised"]


def test_devices_that_are_known_are_not_detected_again(tmp_path: Path) -> None:
    """But --venv_script may set a mask."""
    one = task(tmp_path)
    known = NodeDevices(environment_of(one), one.env)
    assert check(one, devices=known).devices is known
    (tmp_path / "activate").write_text("export CUDA_VISIBLE_DEVICES=3\n")
    of_venv = one._replace(workers=one.workers._replace(venv_script=str(tmp_path / "activate")))
    found = check(of_venv, devices=known)
    assert found.base["CUDA_VISIBLE_DEVICES"] == "3"
    assert found.devices is None


@pytest.mark.parametrize("base", [None, {"PMI_RANK": "3", "OMPI_MCA_btl": "tcp", "X": "1"}])
@pytest.mark.parametrize("ours", [False, True])
def test_a_worker_is_no_task_of_an_mpi_launcher_unless_it_is_started_as_one(
    base: dict[str, str] | None, ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PMI_RANK", "OMPI_MCA_btl", "X"):
        monkeypatch.setenv(name, "1")
    found = environment_of(task(tmp_path, base=base, rank_per_task=ours))
    assert found["X"] == "1"
    assert [name in found for name in ("PMI_RANK", "OMPI_MCA_btl")] == [ours, ours]
