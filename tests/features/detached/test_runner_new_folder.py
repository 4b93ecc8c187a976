"""The folder of a job that is about to start says what the job is."""

from __future__ import annotations

import os
import resource
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.cli.parser import parse
from dsrun.launcher.common.errors import OutputError
from dsrun.launcher.features.detached import runner_job_folder as job_folder
from dsrun.launcher.features.detached.runner_job_folder import JobState
from dsrun.launcher.features.detached.runner_new_folder import new_folder
from dsrun.launcher.planning.job import plan_job

if TYPE_CHECKING:
    from pathlib import Path

    from dsrun.launcher.specs.job import JobSpec


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobSpec:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    return plan_job(parse(["--host", "n1:2,n2:2", "train.py", "--name", "a b"], {}))


def test_it_says_what_the_job_is_and_who_runs_it(spec: JobSpec, tmp_path: Path) -> None:
    path = new_folder(spec, {"XDG_STATE_HOME": str(tmp_path / "s")}, os.getpid(), "lab")
    known = job_folder.open_folder(path)
    assert known is not None
    about = known.about
    assert (about.job_id, about.hold, about.world_size, about.nodes) == (spec.job_id, "lab", 4, 2)
    assert about.program == "train.py --name 'a b'"
    assert about.workdir == str(tmp_path)
    assert (about.process.pid, known.state) == (os.getpid(), JobState.RUNS)


def test_a_folder_that_cannot_be_made_is_one_line(spec: JobSpec, tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(OutputError, match=r"--detach: cannot save the output of the job: .*/s: "):
        new_folder(spec, {"XDG_STATE_HOME": str(tmp_path / "s")}, os.getpid())


def test_a_full_disk_is_named(spec: JobSpec, tmp_path: Path) -> None:
    """A limit on the size of files stands for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(OutputError, match=r"the job: .*/s/dsrun/jobs: file too large; XDG_"):
            new_folder(spec, {"XDG_STATE_HOME": str(tmp_path / "s")}, os.getpid())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
