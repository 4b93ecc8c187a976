"""The Slurm that other tests rely on: what it runs, what its nodes have, and what it cleans up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..support.limits import wait_for
from .slurm import Ended

if TYPE_CHECKING:
    from .slurm import Slurm


def test_srun_answers_from_every_node(slurm: Slurm) -> None:
    answered = slurm.run("srun", "--nodes=4", "--ntasks-per-node=1", "--label", "hostname")
    assert sorted(answered.stdout.splitlines()) == ["0: n1", "1: n2", "2: n3", "3: n4"]


def test_a_batch_job_tells_where_it_runs_and_how_it_ends(slurm: Slurm) -> None:
    script = "echo $SLURM_JOB_NUM_NODES of $SLURM_JOB_NODELIST at $SLURMD_NODENAME; exit 7"
    job = slurm.sbatch(script, "--nodes=2", "--nodelist=n2,n3")
    assert slurm.wait(job) == Ended("FAILED", 7, "2 of n[2-3] at n2\n")


def test_a_task_of_a_step_knows_its_place(slurm: Slurm) -> None:
    place = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURM_STEP_NODELIST $SLURM_STEP_ID"
    script = f"srun --nodes=2 --ntasks=4 bash -c '{place}' | sort"
    ended = slurm.wait(slurm.sbatch(script, "--nodes=4", "--ntasks-per-node=2"))
    steps = "".join(f"{task} {task // 2} {task % 2} n[1-2] 0\n" for task in range(4))
    assert ended == Ended("COMPLETED", 0, steps)


def test_nodes_have_unlike_numbers_of_gpus(slurm: Slurm) -> None:
    shown = ("bash", "-c", "echo $SLURMD_NODENAME has $CUDA_VISIBLE_DEVICES")
    told = slurm.run("srun", "--nodes=4", "--ntasks-per-node=1", "--gpus=10", *shown).stdout
    assert sorted(told.splitlines()) == ["n1 has 0,1", "n2 has 0,1", "n3 has 0,1", "n4 has 0,1,2,3"]


def test_what_cannot_be_had_is_refused(slurm: Slurm) -> None:
    with pytest.raises(ValueError, match="node configuration is not available"):
        slurm.sbatch("true", "--nodes=4", "--gpus-per-node=3")


def test_slurm_is_at_hand_over_ssh_as_well(slurm: Slurm) -> None:
    told = slurm.run("ssh", "n3", "srun --nodes=1 --nodelist=n4 hostname")
    assert told.stdout == "n4\n", told.stderr


def test_a_cancelled_job_leaves_nothing(slurm: Slurm) -> None:
    job = slurm.sbatch("srun bash -c 'echo up; exec sleep 600'", "--nodes=2")
    wait_for(lambda: slurm.output(job) == "up\nup\n", "both tasks")
    assert slurm.leftovers()
    slurm.run("scancel", str(job))
    assert slurm.wait(job).state == "CANCELLED"
    wait_for(lambda: not slurm.leftovers(), "a clean Slurm")


def test_a_job_in_spare_gives_way_and_starts_again(slurm: Slurm) -> None:
    script = "echo start ${SLURM_RESTART_COUNT:-0}; [ $SLURM_RESTART_COUNT ] || sleep 600"
    job = slurm.sbatch(script, "--partition=spare", "--nodes=4", "--exclusive")
    wait_for(lambda: slurm.output(job), "the first start")
    assert slurm.run("srun", "--nodelist=n1", "hostname").stdout == "n1\n"
    assert slurm.wait(job) == Ended("COMPLETED", 0, "start 1\n")


def test_a_node_that_was_without_power_works_again(slurm: Slurm) -> None:
    job = slurm.sbatch("sleep 600", "--nodelist=n2", "--no-requeue")
    slurm.wait_for_state(job, "RUNNING")
    with slurm.powered_off(slurm.cluster.host("n2")):
        pass
    assert slurm.wait(job).state == "NODE_FAIL"
    assert slurm.run("srun", "--nodelist=n2", "hostname").stdout == "n2\n"
