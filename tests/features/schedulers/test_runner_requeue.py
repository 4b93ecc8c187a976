"""`--requeue_on`: what Slurm is asked, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.features.schedulers.runner_requeue import requeue, requeueing

if TYPE_CHECKING:
    from pathlib import Path

SCONTROL = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$1" in
--oneliner) echo "JobId=12 JobState={state} Reason=None" ;;
requeue) {answer} ;;
esac
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for scontrol, the first on PATH."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def scontrol(folder: Path, state: str = "RUNNING", answer: str = ":") -> None:
    program = folder / "scontrol"
    program.write_text(SCONTROL.format(folder=folder, state=state, answer=answer))
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("environ", "often"),
    [
        ({}, "0 times"),
        ({"SLURM_RESTART_COUNT": "1"}, "once"),
        ({"SLURM_RESTART_COUNT": "2"}, "2 times"),
    ],
)
def test_a_job_that_runs_is_requeued(
    slurm: Path, capsys: pytest.CaptureFixture[str], environ: dict[str, str], often: str
) -> None:
    scontrol(slurm)
    requeue(85, {"SLURM_JOB_ID": "12", **environ})
    assert (slurm / "asked").read_text().splitlines() == ["--oneliner show job 12", "requeue 12"]
    assert capsys.readouterr().err == (
        f"dsrun: exit code 85: requeueing Slurm job 12, restarted {often} so far\n"
    )


def test_a_refusal_is_told(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scontrol(slurm, answer="echo 'Access denied' >&2")
    requeue(1, {"SLURM_JOB_ID": "12"})
    assert capsys.readouterr().err.endswith("dsrun: scontrol requeue 12: Access denied\n")


def test_a_refusal_does_not_reach_the_terminal_raw(
    slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scontrol(slurm, answer=r"printf 'no\033]0;title\007\nsecond' >&2")
    requeue(1, {"SLURM_JOB_ID": "12"})
    assert capsys.readouterr().err.endswith(
        "dsrun: scontrol requeue 12: no\\x1b]0;title\\x07\ndsrun: second\n"
    )


@pytest.mark.parametrize("state", ["CANCELLED", "COMPLETING", "REQUEUED"])
def test_a_job_that_was_cancelled_stays_so(
    slurm: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    scontrol(slurm, state)
    requeue(1, {"SLURM_JOB_ID": "12"})
    assert capsys.readouterr().err == ""
    assert "requeue" not in (slurm / "asked").read_text()


def test_without_scontrol_nothing_is_done(slurm: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slurm.joinpath("scontrol").unlink(missing_ok=True)
    requeue(1, {"SLURM_JOB_ID": "12"})
    assert "requeueing" not in capsys.readouterr().err


@pytest.mark.parametrize("code", [69, 3])
def test_the_code_of_a_job_that_could_not_start_counts_as_well(
    slurm: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def job() -> int:
        raise NodeError("n0: no python")

    scontrol(slurm)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    with pytest.raises(NodeError, match="no python"):
        requeueing({code}, job)
    assert (slurm / "asked").exists() is (code == 69)
    assert requeueing({code}, lambda: 0) == 0


def test_a_job_that_ends_with_such_a_code_is_requeued(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol(slurm)
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    assert requeueing({85}, lambda: 3) == 3
    assert not (slurm / "asked").exists()
    assert requeueing({85}, lambda: 85) == 85
    assert (slurm / "asked").read_text().endswith("requeue 12\n")


def test_a_scontrol_of_the_current_folder_is_not_asked(
    slurm: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scontrol(slurm)
    monkeypatch.chdir(slurm)
    monkeypatch.setenv("PATH", ":.")
    requeue(85, {"SLURM_JOB_ID": "12"})
    assert not (slurm / "asked").exists()
