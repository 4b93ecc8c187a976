"""Workers on cores of their own: what `sched_getaffinity` says in the worker itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..needs import need
from . import tell
from .command import COMMAND
from .scripts import LOCAL, TRACEBACK, hostfile
from .tell import told

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .command import Dsrun
    from .hosts import Cluster


@pytest.fixture
def here(tmp_path: Path) -> tuple[str, ...]:
    """Options with which a worker that runs `tell.SCRIPT` tells it to `tmp_path`."""
    return ("--export", f"TELL={tmp_path}")


def cores() -> set[int]:
    """The cpus that this test may use, which dsrun inherits."""
    return os.sched_getaffinity(0)


def without_numactl(folder: Path) -> Mapping[str, str]:
    """A PATH with all programs but numactl."""
    tools = folder / "tools"
    tools.mkdir()
    for place in os.environ["PATH"].split(":"):
        for program in Path(place).glob("*") if Path(place).is_dir() else ():
            if program.name != "numactl" and not (tools / program.name).exists():
                (tools / program.name).symlink_to(program)
    return {"PATH": str(tools)}


@pytest.mark.parametrize(("where", "numactl"), [("local", True), ("local", False), ("ssh", True)])
def test_every_rank_gets_its_own_cores(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], where: str, numactl: bool
) -> None:
    need(*({"numactl"} if numactl else ()))
    env = {} if numactl else without_numactl(tmp_path)
    hosts = (*LOCAL, "--num_gpus", "2") if where == "local" else hostfile(cluster, tmp_path, 2)
    done = dsrun(*hosts, "--bind_cores_to_rank", *here, tell.SCRIPT, env=env)
    assert done.returncode == 0, done.stderr
    first, second = told(tmp_path)
    assert first.cpus
    assert second.cpus
    assert first.cpus | second.cpus == cores()
    if len(cores()) > 1:
        assert not first.cpus & second.cpus
    assert int(first["OMP_NUM_THREADS"]) == max(1, len(first.cpus))


@pytest.mark.parametrize(
    "options", [("--bind_core_list", "0"), ("--bind-core-list=0", "--bind_cores_to_rank")]
)
def test_only_the_listed_cores(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...], options: Sequence[str]
) -> None:
    done = dsrun(*LOCAL, "--num_gpus", "2", *options, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    assert [one.cpus for one in told(tmp_path)] == [{0}, {0}]


@pytest.mark.parametrize("numactl", [True, False])
def test_cores_within_those_allowed(
    cluster: Cluster, tmp_path: Path, here: tuple[str, ...], numactl: bool
) -> None:
    need("taskset", *({"numactl"} if numactl else ()))
    env = {} if numactl else without_numactl(tmp_path)
    command = ["taskset", "-c", "0", *COMMAND, *LOCAL, "--num_gpus", "2", "--bind_cores_to_rank"]
    done = cluster.login.run([*command, *here, tell.SCRIPT], env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [(one.cpus, one["OMP_NUM_THREADS"]) for one in told(tmp_path)] == [({0}, "1")] * 2


@pytest.mark.parametrize("listed", ["9999", "0-", "x", "0,0"])
def test_cores_that_are_not_there(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], listed: str
) -> None:
    done = dsrun(*hostfile(cluster, tmp_path, 1, 1), "--bind_core_list", listed, *here, tell.SCRIPT)
    assert done.returncode in {2, 69}
    assert "--bind_core_list" in done.stderr
    assert TRACEBACK not in done.stderr
    assert not list(tmp_path.glob("told-*"))


def test_without_binding_nothing_is_bound(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...]
) -> None:
    assert dsrun(*LOCAL, "--num_gpus", "2", *here, tell.SCRIPT).returncode == 0
    found = told(tmp_path)
    assert [one.cpus for one in found] == [cores()] * 2
    threads = str(max(1, len(cores()) // 2))
    assert [one["OMP_NUM_THREADS"] for one in found] == [threads] * 2
