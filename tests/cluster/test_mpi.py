"""Scripts that use MPI themselves: the engine starts every rank, and dsrun gives it its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from .command import COMMAND

if TYPE_CHECKING:
    from pathlib import Path

    from .command import Dsrun
    from .engines import Engine
    from .hosts import Cluster

SCRIPT = """
import os, sys, time
from mpi4py import MPI

world = MPI.COMM_WORLD
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
place = " ".join(os.environ[name] for name in names)
total = world.allreduce(10 ** world.rank)
sys.stdout.write(f"rank {world.rank} of {world.size} sum {total} place {place}\\n")
sys.stdout.flush()
if len(sys.argv) > 1:
    world.Barrier()
    if world.rank == 1:
        world.Abort(int(sys.argv[1]))
    time.sleep(1200)
"""
UNEVEN = "n1 slots=1\nn3 slots=2\n"


def command(engine: Engine, folder: Path) -> list[str]:
    (folder / "mpi.py").write_text(SCRIPT)
    (folder / "hosts").write_text(UNEVEN)
    options = ["--rank_per_task", "-H", "hosts", "--python", engine.python, "--no_local_rank"]
    return [*engine.options, *options, str(folder / "mpi.py")]


@pytest.mark.tier("test")
def test_ranks_of_mpi_are_those_of_torch(engine: Engine, dsrun: Dsrun, tmp_path: Path) -> None:
    done = dsrun(*command(engine, tmp_path))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        "n1:0| rank 0 of 3 sum 111 place 0 0 3 1 0 n1",
        "n3:1| rank 1 of 3 sum 111 place 1 0 3 2 1 n1",
        "n3:2| rank 2 of 3 sum 111 place 2 1 3 2 1 n1",
    ]


def test_mpi_abort_gives_the_job_its_code(
    engine: Engine, dsrun: Dsrun, cluster: Cluster, tmp_path: Path
) -> None:
    done = dsrun(*command(engine, tmp_path), "42")
    for host in cluster.hosts:  # what MPICH itself leaves behind when it aborts
        host.run(["sh", "-c", "rm -f /dev/shm/mpich_shm_* /tmp/hydra_hwloc_xmlfile_*"])
    assert done.returncode == 42, done.stderr
    assert re.search(r"(?m)^dsrun: (lost \w+|lost the engine|rank \d .*) after ", done.stderr)


TWICE = """
import os, sys

prefixes = ("OMPI_", "OPAL_", "PMIX_", "PMI_", "PRTE_", "MPI_LOCAL", "HYD", "I_MPI_HYDRA")
left = [name for name in os.environ if name.startswith(prefixes)]
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
sys.stdout.write(f"rank {os.environ['RANK']} attempt {attempt} left {left}\\n")
sys.stdout.flush()
sys.exit(7 if attempt == "0" else 0)
"""
ONE_A_NODE = {
    "openmpi": ("--allow-run-as-root", "--host", "n1:1,n2:1", "-x", "DSRUN_TOKEN"),
    "mpich": ("-hosts", "n1,n2", "-ppn", "1", "-n", "2"),
    "impi": ("-hosts", "n1,n2", "-ppn", "1", "-n", "2"),
}
"""What starts one process on each of two hosts."""


@pytest.mark.tier("test")
@pytest.mark.parametrize("exported", [(), ("--export", "PMI_RANK=9")])
def test_no_worker_is_a_task_of_what_has_started_dsrun(
    engine: Engine, cluster: Cluster, tmp_path: Path, exported: tuple[str, ...]
) -> None:
    (tmp_path / "twice.py").write_text(TWICE)
    words = [
        "--accelerator",
        "cpu",
        "--num_gpus",
        "1",
        "--master_addr",
        "n1",
        "--max_restarts",
        "1",
    ]
    job = [*COMMAND, *words, *exported, str(tmp_path / "twice.py")]
    start = [engine.program, *ONE_A_NODE[engine.launcher]]
    ran = cluster.login.run([*start, *job], env={"DSRUN_TOKEN": "secret"})
    assert ran.returncode == 0, ran.stderr
    said = re.findall(r"rank (\d) attempt (\d) left (.*)", ran.stdout)
    left = "['PMI_RANK']" if exported else "[]"
    assert {(rank, attempt) for rank, attempt, _ in said} >= {("0", "1"), ("1", "1")}
    assert {names for *_, names in said} == {left}
