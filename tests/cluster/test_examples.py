"""The job files of `examples/`, as far as there is an engine for them here."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

import pytest

from ..support.desk import environment, lay_out
from ..support.needs import need_modules
from .command import CHECKOUT, Running
from .test_no_ssh import TOKEN

if TYPE_CHECKING:
    from pathlib import Path

    from .hosts import Cluster
    from .slurm import Slurm

SHORT = ("--batch", "16", "--steps", "4", "--log_every", "1")
TIMEOUT = 180.0
ALL_STEPS = [1, 2, 3, 4]


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A folder as the examples expect it."""
    need_modules("torch")
    return lay_out(tmp_path)


def steps(output: str) -> list[int]:
    """The steps that rank 0 tells of, and where it is."""
    return [int(step) for step in re.findall(r"(?m)^[\w-]+:0\| step +(\d+) ", output)]


@pytest.mark.parametrize(
    "name", ["slurm.sbatch", pytest.param("slurm_srun.sbatch", marks=pytest.mark.tier("all"))]
)
def test_slurm(slurm: Slurm, desk: Path, name: str) -> None:
    options = ["--nodes=2", "--gpus-per-node=1", f"--chdir={desk}", f"--output={desk}/out"]
    # The GPUs of this Slurm are numbers without a device.
    env = environment(desk, DSRUN_ACCELERATOR="cuda")
    command = ["sbatch", "--parsable", *options, f"{CHECKOUT}/examples/{name}", *SHORT]
    job = int(slurm.run(*command, env=env).stdout)
    ended = slurm.wait(job, TIMEOUT)
    output = (desk / "out").read_text()
    assert ended.code == 0, output
    assert "world size 2, gloo" in output
    assert steps(output) == ALL_STEPS
    assert len(list(desk.glob("logs/*/rank-*.out"))) == 2
    if name == "slurm.sbatch":
        assert (desk / f"checkpoint-{job}.pt").exists()


def test_pbs(cluster: Cluster, desk: Path) -> None:
    """There is no PBS here: its variables are set by hand, and ssh is real."""
    (desk / "nodes").write_text("n1\nn2\n")
    script = (CHECKOUT / "examples" / "pbs.sh").read_text()
    # The only change: the end of its command line, where a person would write more of it.
    script = re.sub(r"(?m)^(exec dsrun) (.*)$", rf"\1 --num_gpus 1 \2 {' '.join(SHORT)}", script)
    of_pbs = {"PBS_NODEFILE": f"{desk}/nodes", "PBS_O_WORKDIR": str(desk), "PBS_JOBID": "7"}
    env = environment(desk, **of_pbs, PBS_ENVIRONMENT="PBS_BATCH")
    ran = cluster.login.run(["bash", "-c", script], env=env, timeout=TIMEOUT)
    assert ran.returncode == 0, ran.stderr
    assert "world size 2, gloo" in ran.stdout
    assert steps(ran.stdout) == ALL_STEPS
    assert (desk / "checkpoint-7.pt").exists()


def test_a_pytorchjob_of_kubeflow(cluster: Cluster, desk: Path) -> None:
    """There is no Kubernetes here: hosts are the pods, with the variables of the operator."""
    shutil.copy(CHECKOUT / "examples" / "train_ddp.py", desk / "train.py")
    size = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "MASTER_ADDR": "n1"}
    master = {"MASTER_PORT": "23456", "PET_MASTER_ADDR": "n1", "PET_MASTER_PORT": "23456"}
    pods = [
        host.popen(
            ["dsrun", "train.py", *SHORT],
            env=environment(desk, **TOKEN, **size, **master, PET_NODE_RANK=str(rank)),
            cwd=desk,
            text=False,
        )
        for rank, host in enumerate(cluster.hosts[:2])
    ]
    first, second = [Running(pod).wait(TIMEOUT) for pod in pods]
    assert (first.returncode, second.returncode) == (0, 0), first.stderr
    assert "world size 2, gloo" in first.stdout
    assert steps(first.stdout) == ALL_STEPS
