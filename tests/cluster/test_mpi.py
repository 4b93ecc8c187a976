"""Scripts that use MPI themselves: the engine starts every rank, and dsrun gives it its place."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

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
