"""A run whose nodes get a folder before their JOB."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.messages import NodeJob
from dsrun.launcher.features.sync.runner_gate import placed
from dsrun.launcher.head.fleet.events import NodeConnected
from dsrun.launcher.head.run.run_view import RunPhase
from dsrun.launcher.specs.policies import WorkerPolicy
from dsrun.launcher.specs.program import Program

from ...support.fake_fleet import refusal
from ...support.played_sync import fill, spec

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dsrun.launcher.head.run.run import Run

    from ...support.fake_fleet import FakeFleet

    FleetOf = Callable[..., FakeFleet]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, with a script."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return fill(tmp_path / "proj", {"x.py": "", "sub/y": ""})


def _synced(job: FakeFleet, folder: Path, **more: Any) -> Run:
    run = job.prepare(workdir=str(folder), sync=spec(folder, script="x.py"), **more)
    run.start()
    job.step()
    return run


def _number(job: FakeFleet, name: str) -> int:
    """The number of the newest command on a node."""
    asked = [body for kind, body in job.node(name).received if kind == frames.EXEC]
    return int(json.loads(asked[-1])["id"])


def _answers(job: FakeFleet, name: str, **fields: Any) -> None:
    data = b"\x01" + json.dumps(fields).encode() + b"\n"
    job.node(name).says(frames.pack_numbered(frames.EXEC_OUTPUT, _number(job, name), data))
    job.step()


def _jobs(job: FakeFleet, name: str) -> list[dict[str, Any]]:
    return [json.loads(body) for kind, body in job.node(name).received if kind == frames.JOB]


def test_each_node_gets_its_job_once_it_has_the_folder(fleet_of: FleetOf, folder: Path) -> None:
    job = fleet_of("n0", "n1")
    run = _synced(job, folder)
    assert [_jobs(job, name) for name in job.hosts] == [[], []]
    _answers(job, "n1", ready="/copy", lock="/lock", number=1)
    (task,) = _jobs(job, "n1")
    assert _jobs(job, "n0") == []
    assert (task["workdir"], task["synced"][0], len(task["synced"][1])) == ("/copy", "/lock", 64)
    _answers(job, "n0", shared=True)
    (task,) = _jobs(job, "n0")
    assert (task["workdir"], task["synced"]) == (str(folder), [])
    job.begin_workers(run)
    assert run.state.phase is RunPhase.RUNNING


def test_a_node_that_cannot_have_it_fails_the_start(fleet_of: FleetOf, folder: Path) -> None:
    job = fleet_of("n0", "n1")
    run = _synced(job, folder)
    _answers(job, "n0", failed="no space")
    _answers(job, "n1", failed="no space")
    job.step()
    assert refusal(run) == ["n0, n1: --sync: no space"]


def test_a_node_that_comes_back_and_cannot_have_it_is_not_used(
    fleet_of: FleetOf, folder: Path
) -> None:
    job = fleet_of("n0", "n1")
    run = _synced(job, folder)
    for name in job.hosts:
        _answers(job, name, shared=True)
    job.begin_workers(run)
    job.said()
    run.on_event(NodeConnected(run.state.nodes[1].connection))
    job.step()
    _answers(job, "n1", failed="x.py has changed")
    assert job.said()[0] == "cannot use n1: --sync: x.py has changed"
    assert run.state.nodes[1].connection.lost == "--sync: x.py has changed"


def test_another_copy_is_told_in_one_line(fleet_of: FleetOf, folder: Path) -> None:
    job = fleet_of("n0", "n1")
    _synced(job, folder)
    for name in job.hosts:
        _answers(job, name, ready="/copy~2", lock="/lock", number=2)
    assert job.said() == [
        "n0, n1: another job is running in the copy of the --sync folder, which has changed"
        " since; using /copy~2, without the files that jobs wrote in that copy"
    ]


def test_what_is_not_copied_is_said(fleet_of: FleetOf, folder: Path) -> None:
    (folder / "data").symlink_to("/scratch/data")
    job = fleet_of("n0")
    _synced(job, folder)
    assert job.said() == [
        "--sync: links that point out of the folder stay as they are: data",
    ]


def test_paths_in_the_folder_are_those_of_the_copy() -> None:
    python = "/proj/.venv/bin/python"
    program = Program("/proj/x.py", python=python, project_python=python)
    task = NodeJob(
        "1", "j", "h", program, "/proj/sub", {"PYTHONPATH": "/proj/src:/opt"}, None, None
    )
    task = task._replace(workers=WorkerPolicy(venv_script="/proj/activate"))
    moved = {"/proj": "", "/proj/sub": "sub", "/proj/x.py": "x.py", "/proj/src": "src"}
    there = placed(task, moved, "/copy")
    assert there.workdir == "/copy/sub"
    assert there.program.script == "/copy/x.py"
    assert there.program.python == python, "it is not in the copy"
    assert there.program.project_python == python
    copied = placed(task, {**moved, python: ".venv/bin/python"}, "/copy").program
    assert copied.project_python == copied.python == "/copy/.venv/bin/python"
    assert there.workers.venv_script == "/proj/activate"
    assert there.env == {"PYTHONPATH": "/copy/src:/opt"}
    bare = task._replace(program=Program("x.py"), env={}, workdir="/proj")
    assert placed(bare, moved, "/copy") == bare._replace(workdir="/copy")
