"""`--jax` on hosts: what a stand-in for jax finds with each launcher, and the real one's training.

The stand-in reads the variables as jax 0.10.2 does (`jax/_src/distributed.py`, `clusters`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from ..support.programs import PYTHON, need_program, program
from .command import Dsrun
from .jobs import everywhere, place

if TYPE_CHECKING:
    from pathlib import Path

    from .engines import Engine
    from .hosts import Cluster

STAND_IN = """
import os

def initialized():
    get = os.environ.get
    address, ids = get("JAX_COORDINATOR_ADDRESS"), get("JAX_LOCAL_DEVICE_IDS")
    if "OMPI_MCA_orte_hnp_uri" in os.environ:
        kind = "OMPI_COMM_WORLD_"
        return address, int(get(kind + "SIZE")), int(get(kind + "RANK")), ids
    slurm = ("JOB_ID", "STEP_NODELIST", "NTASKS", "PROCID", "LOCALID")
    assert all("SLURM_" + name in os.environ for name in slurm), "jax detects no launcher"
    return address, int(get("SLURM_NTASKS")), int(get("SLURM_PROCID")), ids

address, size, rank, ids = initialized()
assert address == f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
assert (size, rank) == (int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
assert {*os.environ} & {"DSRUN_JAX"} == set()
by = "Open MPI's" if "OMPI_MCA_orte_hnp_uri" in os.environ else "Slurm's"
print(f"{rank} of {size} by {by} variables, device {ids}", flush=True)
"""

CPU = ("--accelerator", "cpu", "--no_local_rank", "--prefix", "")


def told(*local_ranks: int) -> list[str]:
    """What these workers say, in the order of their ranks."""
    how = f"of {len(local_ranks)} by Open MPI's variables, device"
    return [f"{rank} {how} {local}" for rank, local in enumerate(local_ranks)]


@pytest.mark.tier("ci")
@everywhere
def test_jax_finds_the_others(site: Cluster, tmp_path: Path, launcher: str) -> None:
    """In a Slurm job, too, its variables for Open MPI come first."""
    (tmp_path / "t.py").write_text(STAND_IN)
    hosts = ("login",) if launcher == "local" else ("n1", "n2")
    dsrun = Dsrun(site, tmp_path)
    ended = dsrun(*place(launcher, 2, hosts), *CPU, "--jax", "t.py")
    assert ended.returncode == 0, ended
    assert sorted(ended.stdout.splitlines()) == told(*[0, 1] * len(hosts))


@pytest.mark.tier("ci")
def test_a_task_for_each_rank(engine: Engine, dsrun: Dsrun, tmp_path: Path) -> None:
    """Open MPI has set its own variables then, and MPI works beside jax."""
    mpi = "from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size == 3\n"
    (tmp_path / "t.py").write_text(mpi + STAND_IN)
    words = ("--rank_per_task", "--python", engine.python, "--host", "n1:1,n3:2")
    ended = dsrun(*engine.options, *words, *CPU, "--jax", "t.py")
    assert ended.returncode == 0, ended
    assert sorted(ended.stdout.splitlines()) == told(0, 0, 1)


FAILING = """
import os
import jax

if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    jax.distributed.initialize()
    assert jax.device_count() == 4
    if os.environ["RANK"] == "{rank}":
        os.kill(os.getpid(), 9)
    jax.distributed.shutdown()
"""
"""Ends one rank of the first round; in the next, the example follows."""


NO_NOTICE = ("--export", "JAX_ENABLE_PREEMPTION_SERVICE=0")
"""With it SIGTERM ends jax's processes."""


@pytest.mark.tier("all")
@pytest.mark.parametrize("killed", [None, 0, 3])
def test_the_example_trains(dsrun: Dsrun, tmp_path: Path, killed: int | None) -> None:
    """All ranks have the same parameters after each step, also in the round after a failure."""
    need_program("jax")
    before = "" if killed is None else FAILING.format(rank=killed)
    (tmp_path / "train_jax.py").write_text(before + program("JAX").one("python"))
    rounds = () if killed is None else ("--max_restarts", "1", *NO_NOTICE)
    words = ("--host", "n1:1,n2:1,n3:1,n4:1", "--python", PYTHON, *rounds)
    ended = dsrun(*words, *CPU, "--jax", "train_jax.py")
    assert ended.returncode == 0, ended
    steps = re.findall(r"^step (\d): loss (\S+), parameters \[(.*)\]$", ended.stdout, re.MULTILINE)
    assert sorted(number for number, *_ in steps) == [*"000011112222"], ended
    assert len({*steps}) == 3, ended
    losses = [float(loss) for _, loss, _ in sorted({*steps})]
    assert losses[0] > losses[1] > losses[2] > 0
    assert (" restart" in ended.stderr) == (killed is not None), ended
