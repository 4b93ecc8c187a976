"""The MPI launchers that other tests rely on: they start processes on hosts, and these talk MPI."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .engines import ENGINES

if TYPE_CHECKING:
    import subprocess

    from .engines import Engine
    from .hosts import Cluster

HOSTS = ("n1", "n3", "n2")
OPTIONS = {
    "openmpi": ("--allow-run-as-root", "--host", ",".join(f"{host}:1" for host in HOSTS)),
    "mpich": ("-hosts", ",".join(HOSTS), "-ppn", "1"),
    "impi": ("-hosts", ",".join(HOSTS), "-ppn", "1"),
}
"""What starts one process on each of the hosts, in this order."""

RANKS = {"openmpi": "OMPI_COMM_WORLD_RANK", "mpich": "PMI_RANK", "impi": "PMI_RANK"}

# Open MPI 5 may not notice the end of processes that live for milliseconds, or longer under load.
WHERE = "echo $(uname -n) ${}; sleep 1"
SUM = """\
import sys
from mpi4py import MPI
total = MPI.COMM_WORLD.allreduce(10 ** MPI.COMM_WORLD.rank)
sys.stdout.write(f"{MPI.Get_processor_name()} {total}\\n")
"""


def start(engine: Engine, cluster: Cluster, *command: str) -> subprocess.CompletedProcess[str]:
    return cluster.login.run([engine.program, *OPTIONS[engine.launcher], *command])


def test_every_engine_is_told_by_its_version(engine: Engine, cluster: Cluster) -> None:
    said = cluster.login.run([engine.program, "--version"]).stdout
    assert [one.name for one in ENGINES if re.search(one.version, said)] == [engine.name]


def test_the_order_of_hosts_is_that_of_ranks(engine: Engine, cluster: Cluster) -> None:
    ran = start(engine, cluster, "sh", "-c", WHERE.format(RANKS[engine.launcher]))
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["n1 0", "n2 2", "n3 1"]


def test_the_processes_of_an_engine_are_one_world(engine: Engine, cluster: Cluster) -> None:
    ran = start(engine, cluster, engine.python, "-c", SUM)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["n1 111", "n2 111", "n3 111"]
