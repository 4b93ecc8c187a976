"""What Slurm says of a job of which only variables are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.resources import allocation, slurm_job
from dsrun.launcher.resources.allocation import Allocation

# As Slurm 22.05 shows it, but for what nobody reads here.
RUNNING = """
JobId=7 JobName=interactive JobState=RUNNING Reason=None NodeList=n[1-3] JOB_GRES=gpu:8 \\
  Nodes=n[1-2] CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)   Nodes=n3 CPU_IDs=0 Mem=0 \\
GRES=gpu:a100:4(IDX:0-3),craynetwork:1 MinCPUsNode=1 TresPerNode=gres:gpu:2
""".replace("\\\n", "")
ENVIRON = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n[1-3]", "PATH": "/nowhere"}


def held(**environ: str) -> Allocation:
    found = allocation.find({**ENVIRON, **environ})
    assert found is not None
    return found


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name on PATH, which says what is in this file."""
    said = tmp_path / "said"
    program = tmp_path / "scontrol"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked; cat {said}; exit 1\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return said


def test_the_gpus_are_those_of_the_job(scontrol: Path) -> None:
    scontrol.write_text(RUNNING)
    environ = {**ENVIRON, "SLURM_GPUS_PER_NODE": "1"}
    found = slurm_job.verified(held(SLURM_GPUS_PER_NODE="1"), environ)
    assert [len(host.slots or ()) for host in found.hosts] == [2, 2, 4]
    assert found.notes == (
        "SLURM_GPUS_PER_NODE=1 is not for this job, which has 2 GPUs on n1 (scontrol show job 7):"
        " it is ignored; `unset SLURM_GPUS_PER_NODE`",
    )
    assert (scontrol.parent / "asked").read_text() == "--details --oneliner show job 7\n"


def test_other_nodes_than_the_jobs_are_refused(scontrol: Path) -> None:
    """Half of the job would be left idle without a word."""
    scontrol.write_text(RUNNING)
    with pytest.raises(UsageError) as caught:
        slurm_job.verified(held(SLURM_JOB_NODELIST="n2"), ENVIRON | {"SLURM_JOB_NODELIST": "n2"})
    assert str(caught.value) == (
        "SLURM_JOB_NODELIST=n2: this job has n[1-3] (scontrol show job 7); `export"
        " SLURM_JOB_NODELIST='n[1-3]'`, and choose nodes with --include"
    )


@pytest.mark.parametrize("said", ["", "slurm_load_jobs error: Unable to contact slurm controller"])
def test_without_an_answer_variables_are_taken_as_they_are(scontrol: Path, said: str) -> None:
    scontrol.write_text(said)
    given = held(SLURM_GPUS_PER_NODE="1")
    assert slurm_job.verified(given, {**ENVIRON, "SLURM_GPUS_PER_NODE": "1"}) == given


def test_nothing_is_asked_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert slurm_job.verified(held(), ENVIRON) == held()


@pytest.mark.parametrize(
    "environ", [{"SLURMD_NODENAME": "n1"}, {"PBS_JOBID": "1", "PBS_NODEFILE": "f"}]
)
def test_nothing_is_asked_on_the_nodes_nor_of_other_schedulers(
    scontrol: Path, environ: dict[str, str]
) -> None:
    scontrol.write_text("slurm_load_jobs error: Invalid job id specified")
    whose = ENVIRON if "SLURMD_NODENAME" in environ else {}
    given = allocation.find({**whose, **environ}, lambda _: b"n1\n")
    assert given is not None
    assert slurm_job.verified(given, {**whose, **environ}) == given
    assert not (scontrol.parent / "asked").exists()


@pytest.mark.parametrize(
    ("said", "how"),
    [
        ("slurm_load_jobs error: Invalid job id specified", "is no longer known to Slurm"),
        ("JobId=7 JobState=COMPLETED Reason=None", "has ended (COMPLETED)"),
        ("JobId=7 JobState=FAILED\nJobId=8 JobState=CANCELLED", "has ended (CANCELLED, FAILED)"),
    ],
)
def test_a_job_that_has_ended_is_named(scontrol: Path, said: str, how: str) -> None:
    scontrol.write_text(said)
    with pytest.raises(UsageError) as caught:
        slurm_job.verified(held(), ENVIRON)
    with pytest.raises(UsageError, match="`unset SLURM_JOB_ID SLURM_JOBID`, then"):
        slurm_job.check_running({**ENVIRON, "SLURM_JOBID": "7"})
    slurm_job.check_running({**ENVIRON, "SLURMD_NODENAME": "n1"})
    slurm_job.check_running({"SLURM_JOBID": "7"})
    assert str(caught.value) == (
        f"SLURM_JOB_ID=7: this job {how}; its variables are left over in this shell:"
        " `unset SLURM_JOB_ID`, then name hosts, or request an allocation with --launcher slurm"
    )


@pytest.mark.parametrize("said", ["JobId=7 JobState=RUNNING", "JobState=FAILED JobState=RUNNING"])
def test_a_job_that_runs_is_no_fault(said: str) -> None:
    slurm_job.check(ENVIRON, said)


@pytest.mark.parametrize(
    ("said", "gpus"),
    [
        ("Nodes=n1 CPU_IDs=0 GRES=", {}),
        ("Nodes=n1 CPU_IDs=0 GRES=gpu:0", {}),
        ("Nodes=n1 GRES=gpu:99999", {}),
        ("Nodes=n1 CPU_IDs=0\nGRES=gpu:2", {}),
        ("Nodes=n1 Mem=0 GRES=gpu:a:1(IDX:0),gpu:b:2(IDX:1,3)", {"n1": 3}),
    ],
)
def test_what_slurm_shows_of_gpus(said: str, gpus: dict[str, int]) -> None:
    assert slurm_job.gpus_by_node(said) == gpus
