"""Fixtures for tests on real hosts: the clusters, `dsrun` at their login, and the traces left."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.needs import need, need_modules
from .command import CHECKOUT, Dsrun
from .engines import ENGINES, Engine
from .hosts import Cluster
from .slurm import Slurm
from .traces import Bystanders, nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterator

CLUSTERS = ("cluster", "big_cluster", "site")


@pytest.fixture(scope="session", autouse=True)
def hosts_possible() -> None:
    """Skip, by the name of what is missing, where this machine cannot have virtual hosts."""
    need("sshd", "ssh", "ssh-keygen", "ip", "unshare", "nsenter")
    attempt = ["unshare", "--mount", "--net", "--pid", "--fork", "true"]
    tried = subprocess.run(attempt, capture_output=True, text=True, check=False)
    if tried.returncode:
        reason = f"virtual hosts need root: {tried.stderr.strip()}"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@pytest.fixture(scope="session")
def torch_is_here() -> None:
    """Skip where there is no torch."""
    need_modules("torch")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What hosts see of the real machine's `/tmp`: the tests' own folders, ourselves and Python."""
    ours = [tmp_path_factory.getbasetemp(), CHECKOUT, Path(sys.prefix), Path(sys.base_prefix)]
    return [path.resolve() for path in ours]


@pytest.fixture(scope="package")
def cluster(shared: list[Path]) -> Iterator[Cluster]:
    """Four hosts, `n1` to `n4`, and a login; up for all the tests in this folder."""
    with Cluster(4, shared=shared) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def big_cluster(shared: list[Path]) -> Iterator[Cluster]:
    """Sixty-four hosts, `n1` to `n64`, and a login; up from the first use on."""
    with Cluster(64, shared=shared) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def slurm(shared: list[Path]) -> Iterator[Slurm]:
    """Slurm on four hosts of its own, which no other test switches off; see `Slurm`."""
    need("munged", "slurmctld", "slurmd", "sbatch", "srun")
    with Cluster(4, shared=shared) as cluster, Slurm(cluster) as slurm:
        yield slurm


@pytest.fixture
def site(
    request: pytest.FixtureRequest, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    """The cluster for jobs with this launcher; for Slurm's there is an allocation of two nodes."""
    if launcher != "slurm":
        yield request.getfixturevalue("cluster")
        return
    slurm: Slurm = request.getfixturevalue("slurm")
    with slurm.nothing_left(), slurm.allocation("n1", "n2") as job:
        monkeypatch.setenv("SLURM_JOB_ID", str(job))
        monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
        yield slurm.cluster


@pytest.fixture(scope="package")
def bystanders() -> Iterator[Bystanders]:
    """Innocent processes on the machines; each lives until its host dies, or a test hurts it."""
    with closing(Bystanders()) as bystanders:
        yield bystanders


@pytest.fixture(autouse=True)
def clean(request: pytest.FixtureRequest, bystanders: Bystanders) -> Iterator[None]:
    """No test may leave anything behind on a cluster, nor hurt what is not its own."""
    used = [request.getfixturevalue(name) for name in CLUSTERS if name in request.fixturenames]
    with ExitStack() as watches:
        for cluster in dict.fromkeys(used):
            watches.enter_context(nothing_left(cluster, bystanders=bystanders))
        if "slurm" in request.fixturenames and "site" not in request.fixturenames:
            slurm: Slurm = request.getfixturevalue("slurm")
            watches.enter_context(nothing_left(slurm.cluster, bystanders=bystanders))
            watches.enter_context(slurm.nothing_left())
        yield


@pytest.fixture
def dsrun(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Dsrun]:
    """`dsrun` at the login of `cluster`, in `tmp_path`, which all hosts see; see `Dsrun`.

    Jobs of tests with the mark `observed` are judged by the rules of simulated worlds.
    """
    observed = request.node.get_closest_marker("observed") is not None
    with closing(Dsrun(cluster, tmp_path, observed=observed)) as dsrun:
        yield dsrun


@pytest.fixture(params=["dsrun", pytest.param("torch", marks=pytest.mark.tier("all"))])
def agent(request: pytest.FixtureRequest) -> str:
    """Whose agent starts the workers of an elastic job; below the tier `all` dsrun's alone.

    A test that is to be run with torch's agent in other tiers names the agents itself
    (`rounds.both_agents`, `rounds.torchs_agent`).
    """
    if request.param == "torch":
        need_modules("torch")
    return str(request.param)


@pytest.fixture
def big_dsrun(big_cluster: Cluster, tmp_path: Path) -> Iterator[Dsrun]:
    """`dsrun` at the login of `big_cluster`, in `tmp_path`, which all hosts see; see `Dsrun`."""
    with closing(Dsrun(big_cluster, tmp_path)) as dsrun:
        yield dsrun


@pytest.fixture(params=ENGINES, ids=str)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each MPI launcher in turn; `engine.options` has dsrun use it."""
    engine: Engine = request.param
    engine.need()
    return engine
