"""Jobs that a program launches and leaves, with everything real."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.api import DetachedJob, JobError, LaunchError, Role, launch_detached
from dsrun.launcher.features.detached import runner_job_folder as job_folder

from ..support.kept_jobs import FAR, NAME, end, kept
from ..support.limits import HANG, wait_for

TWO: dict[str, Any] = {"hosts": "localhost:2", "accelerator": "cpu", "grace": 5}

WORK = """
import os, sys, time
print("rank", os.environ["RANK"], *sys.argv[1:], flush=True)
while not os.path.exists("end"):
    time.sleep(0.01)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "work.py").write_text(WORK)
    return tmp_path


def test_a_job_is_left_and_found_again(folder: Path) -> None:
    launched = launch_detached("work.py", ["--lr", 0.1], **TWO)
    job = DetachedJob(launched.id)
    assert (job.done(), job.report) == (False, None)
    wait_for(lambda: job.stdout(1) == "rank 1 --lr 0.1\n", "output")
    with pytest.raises(TimeoutError, match=f"job {job.id} has not ended within 0 s"):
        job.wait(0)
    assert "running" in repr(job)
    (folder / "end").touch()
    report = job.wait(HANG)
    assert (report.exit_code, report.job_id, report.world_size) == (0, job.id, 2)
    assert job.done()
    assert job.report == report
    assert job.stderr(1) == ""
    with pytest.raises(JobError, match="it is not running on this machine"):
        job.stop()


def test_a_job_of_roles_is_left_likewise(folder: Path) -> None:
    server = Role("server", "sh", ["-c", "echo serves; exec sleep 1000"], no_python=True,
                  nodes=1, slots=1, ready="line:serves", ends="never")  # fmt: skip
    trainer = Role("trainer", "work.py", ["x"], nodes=1, slots=1, after=["server"], ends="job")
    job = launch_detached(roles=[server, trainer], **TWO)
    assert job.stdout(0, "server") == "serves\n"
    wait_for(lambda: job.stdout(0, "trainer") == "rank 0 x\n", "output")
    (folder / "end").touch()
    report = job.wait(HANG)
    assert (report.exit_code, list(report.roles)) == (0, ["server", "trainer"])


@pytest.mark.parametrize(
    ("roles", "says"),
    [
        ([Role("a", print, nodes=1, ends="job")], "functions need launch"),
        ([Role("a", "work.py", [":"], nodes=1, ends="job")], "':' cannot be an argument"),
        ([Role("a", "work.py", nodes=1)], "--program a: ends is missing"),
        ([], "expected a list of Role"),
    ],
)
def test_roles_that_cannot_be_left(roles: list[Role], says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        launch_detached(roles=roles, **TWO)


@pytest.mark.parametrize(
    ("target", "args", "how"),
    [
        ("sh", ["-c", "echo $RANK $0", "a b"], "no_python"),
        ("./work.sh", ["a b"], "no_python"),
        ("work", ["a b"], "module"),
    ],
)
def test_it_may_be_a_command_or_a_module(
    folder: Path, target: str, args: list[str], how: str
) -> None:
    (folder / "end").touch()
    (folder / "work.py").write_text("import os, sys; print(os.environ['RANK'], *sys.argv[1:])")
    (folder / "work.sh").write_text("#!/bin/sh\necho $RANK $1\n")
    (folder / "work.sh").chmod(0o755)
    options: dict[str, Any] = {how: True, **TWO}
    job = launch_detached(target, args, **options)
    assert job.wait(HANG).exit_code == 0
    assert [job.stdout(rank) for rank in (0, 1)] == ["0 a b\n", "1 a b\n"]


def test_a_job_is_stopped() -> None:
    job = launch_detached(Path("work.py"), **TWO)
    job.stop(now=True)
    report = job.wait(HANG)
    assert (report.exit_code, report.cause) == (143, "signal")


@pytest.mark.parametrize(
    ("target", "options", "code", "says"),
    [
        ("no.py", {}, 2, "no.py"),
        ("work.py", {"detach": True}, 2, "detach: not available in Python"),
        ("work.py", {"health_command": "false", **TWO}, 69, "health"),
        (print, {}, 2, "expected a script, a module or a command"),
    ],
)
def test_what_does_not_run_raises(
    folder: Path, target: Any, options: dict[str, Any], code: int, says: str
) -> None:
    with pytest.raises(LaunchError, match=says) as caught:
        launch_detached(target, **options)
    assert caught.value.exit_code == code
    assert not [*folder.glob("state/dsrun/jobs/*")]


def test_what_is_kept_of_others_is_read(folder: Path) -> None:
    environ = {"XDG_STATE_HOME": str(folder / "state")}
    kept(environ, 0)
    kept(environ, 1, FAR)
    with pytest.raises(JobError, match="was killed") as caught:
        DetachedJob(NAME.format(0)).wait()
    assert caught.value.exit_code == 75
    with pytest.raises(TimeoutError):
        DetachedJob(NAME.format(1)).wait(0)
    for unknown in (NAME.format(2), "../x", ""):
        with pytest.raises(JobError, match="no record of a detached job"):
            DetachedJob(unknown)


def test_what_is_damaged_is_an_error_of_its_job(folder: Path) -> None:
    environ = {"XDG_STATE_HOME": str(folder / "state")}
    path = kept(environ, 0)
    job_folder.finish(str(path), end(3))
    job = DetachedJob(NAME.format(0))
    with pytest.raises(JobError, match="its report is incomplete"):
        job.wait()
    (path / "journal").mkdir()
    with pytest.raises(JobError, match="journal: is a folder, not a file"):
        job.stdout()
    (path / "end.json").write_text("[" * 100_000)
    with pytest.raises(JobError, match=r"is damaged: end.json: not valid") as caught:
        job.wait()
    assert caught.value.exit_code == 74
    (path / "job.json").unlink()
    with pytest.raises(JobError, match=r"its folder is damaged: has no job\.json"):
        DetachedJob(NAME.format(0))
