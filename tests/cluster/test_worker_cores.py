"""Workers on cores of their own: what `sched_getaffinity` says in the worker itself."""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.cpu_list import format_cpus
from dsrun.launcher.features.binding.node_topology import read_topology

from ..support.control_groups import removed
from ..support.limits import wait_for
from ..support.needs import need
from . import tell
from .command import CHECKOUT, COMMAND
from .quota import cpu_cgroup
from .scripts import LOCAL, TRACEBACK, hostfile
from .tell import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from .command import Dsrun
    from .hosts import Cluster

    Narrowed = AbstractContextManager[list[str]]


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


@pytest.mark.tier("test")
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


# What is told of it


def reported(errors: str) -> list[tuple[str, int, str]]:
    """Host, rank and cpus of each line in the table of --report_bindings."""
    found = re.findall(r"(?m)^dsrun:   (\S+) +(\d+) +cpu +([\d,-]+) +\S+$", errors)
    return [(host, int(rank), cpus) for host, rank, cpus in found]


def test_the_report_has_all_hosts_in_the_order_of_ranks(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    hosts = hostfile(cluster, tmp_path, 2, 2)
    done = dsrun(*hosts, "--bind_to", "core", "--report_bindings", *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    seen = [(one.host, rank, format_cpus(one.cpus)) for rank, one in enumerate(told(tmp_path))]
    assert [host for host, _, _ in seen] == ["n1", "n1", "n2", "n2"]
    assert reported(done.stderr) == seen
    assert done.stderr.count("bindings, as reported by each node's kernel:") == 1


def test_each_host_has_its_own_list_of_cores(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    first, last = min(cores()), max(cores())
    lists = ("--bind_core_list", f"n1:{first}@n2:{last}", "--report_bindings")
    done = dsrun(*hostfile(cluster, tmp_path, 2, 2), *lists, *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    assert [one.cpus for one in told(tmp_path)] == [{first}] * 2 + [{last}] * 2
    assert [cpus for _, _, cpus in reported(done.stderr)] == [f"{first}"] * 2 + [f"{last}"] * 2


def test_a_list_for_a_host_that_takes_no_part_is_refused(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    hosts = hostfile(cluster, tmp_path, 1, 1)
    done = dsrun(*hosts, "--bind_core_list", "n1:0@n3:0", *here, tell.SCRIPT)
    assert done.returncode == 2
    assert (
        "--bind_core_list: 'n3:0': expected cpus, or host:cpus for one of: n1, n2\n" in done.stderr
    )
    assert not told(tmp_path)


# What is not as one would expect


def test_more_ranks_than_cores_share_them_with_a_thread_each(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    there = len(read_topology().cores)
    ranks = 4 * there
    hosts = hostfile(cluster, tmp_path, ranks)
    done = dsrun(*hosts, "--bind_to", "core", *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    plural = "s" if there > 1 else ""
    assert f"dsrun: n1: {ranks} workers share {there} core{plural}\n" in done.stderr
    found = told(tmp_path)
    assert [one["OMP_NUM_THREADS"] for one in found] == ["1"] * ranks
    assert {cpu for one in found for cpu in one.cpus} == cores()
    # In turn, so that each core has as many ranks as every other.
    assert [one.cpus for one in found] == [one.cpus for one in found[:there]] * 4


def test_hosts_of_different_sizes_share_out_their_own_cores(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    hosts = hostfile(cluster, tmp_path, 2, 4)
    done = dsrun(*hosts, "--bind_to", "core", "--report_bindings", *here, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    found = told(tmp_path)
    assert [(one.host, one["LOCAL_RANK"], one["LOCAL_WORLD_SIZE"]) for one in found] == [
        *(("n1", f"{local}", "2") for local in range(2)),
        *(("n2", f"{local}", "4") for local in range(4)),
    ]
    for host in ("n1", "n2"):
        assert set().union(*(one.cpus for one in found if one.host == host)) == cores()
    assert [rank for _, rank, _ in reported(done.stderr)] == list(range(6))


@pytest.mark.parametrize("where", ["local", "ssh"])
def test_kmp_affinity_is_refused_before_anything_runs(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...], where: str
) -> None:
    hosts = (*LOCAL, "--num_gpus", "2") if where == "local" else hostfile(cluster, tmp_path, 2)
    given = ("--export", "KMP_AFFINITY=compact", "--bind_to", "core", *here)
    done = dsrun(*hosts, *given, tell.SCRIPT)
    host = "localhost" if where == "local" else "n1"
    assert done.returncode == 69
    lines = [line for line in done.stderr.splitlines() if "KMP_AFFINITY" in line]
    assert lines == [
        f"dsrun:   {host}: KMP_AFFINITY=compact: conflicts with core binding;"
        " unset it, or omit --bind_cores_to_rank"
    ]
    assert not told(tmp_path)


def test_without_a_binding_kmp_affinity_is_nobodys_business(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...]
) -> None:
    given = ("--export", "KMP_AFFINITY=compact", *here)
    done = dsrun(*LOCAL, "--num_gpus", "1", *given, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    assert [one["KMP_AFFINITY"] for one in told(tmp_path)] == ["compact"]


def test_other_placements_of_threads_are_kept_with_a_note(
    dsrun: Dsrun, cluster: Cluster, tmp_path: Path, here: tuple[str, ...]
) -> None:
    given = ("--export", "GOMP_CPU_AFFINITY=0", "--export", "OMP_PLACES=cores", *here)
    done = dsrun(*hostfile(cluster, tmp_path, 2), "--bind_to", "core", *given, tell.SCRIPT)
    assert done.returncode == 0, done.stderr
    note = "dsrun: n1: keeping GOMP_CPU_AFFINITY=0, OMP_PLACES=cores: threads are placed"
    assert done.stderr.count(note) == 1
    found = told(tmp_path)
    assert [(one["GOMP_CPU_AFFINITY"], one["OMP_PLACES"]) for one in found] == [("0", "cores")] * 2


# Memory


NO_RULE = "--bind_memory bind: not set: fewer than two NUMA nodes here have memory"
NO_TOOL = "numactl is not installed here: cores are bound, memory is not"


def test_without_numactl_a_line_says_what_is_not_bound(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...]
) -> None:
    asked = ("--bind_to", "core", "--bind_memory", "bind", *here)
    done = dsrun(*LOCAL, "--num_gpus", "2", *asked, tell.SCRIPT, env=without_numactl(tmp_path))
    assert done.returncode == 0, done.stderr
    note = NO_TOOL if len(read_topology().memory_nodes) > 1 else NO_RULE
    assert done.stderr.count(f"dsrun: localhost: {note}\n") == 1
    assert set().union(*(one.cpus for one in told(tmp_path))) == cores()


def test_where_one_node_has_memory_numactl_is_not_asked(
    dsrun: Dsrun, tmp_path: Path, here: tuple[str, ...]
) -> None:
    """One that is first in PATH would leave a trace; with several nodes it must."""
    trap = tmp_path / "trap" / "numactl"
    trap.parent.mkdir()
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    trap.chmod(0o755)
    path = {"PATH": f"{trap.parent}:{os.environ['PATH']}"}
    done = dsrun(*LOCAL, "--num_gpus", "2", "--bind_to", "core", *here, tell.SCRIPT, env=path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").exists() == (len(read_topology().memory_nodes) > 1)
    assert set().union(*(one.cpus for one in told(tmp_path))) == cores()


# A part of the machine


@contextmanager
def cpuset(cpu: int) -> Iterator[Path]:
    """A control group with this one cpu; empty at the end of the block."""
    for root in (Path("/sys/fs/cgroup/cpuset"), Path("/sys/fs/cgroup")):
        group = root / f"dsrun-test-{os.getpid()}"
        try:
            # Version 2 has to be told; in version 1 there is no such file.
            if (control := root / "cgroup.subtree_control").exists():
                control.write_text("+cpuset")
            group.mkdir()
        except OSError:
            continue
        try:
            (group / "cpuset.mems").write_text((root / "cpuset.mems").read_text())
            (group / "cpuset.cpus").write_text(f"{cpu}")
            yield group
            return
        finally:
            wait_for(partial(removed, group), "an empty cpuset")
    reason = "no control group with a cpuset can be made here"
    pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)


@contextmanager
def masked(cpu: int) -> Iterator[list[str]]:
    """The words before a command that leave it this cpu."""
    need("taskset")
    yield ["taskset", "-c", f"{cpu}"]


@contextmanager
def enclosed(cpu: int) -> Iterator[list[str]]:
    """The same by a cpuset."""
    with cpuset(cpu) as group:
        yield ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh"]


@pytest.mark.parametrize("narrowed", [masked, enclosed])
def test_a_part_of_the_machine_is_all_there_is(
    cluster: Cluster, tmp_path: Path, here: tuple[str, ...], narrowed: Callable[[int], Narrowed]
) -> None:
    cpu = max(cores())
    with narrowed(cpu) as before:
        options = ("--num_gpus", "2", "--bind_to", "core", "--report_bindings", *here)
        job = [*before, *COMMAND, *LOCAL, *options, tell.SCRIPT]
        done = cluster.login.run(job, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        topo = cluster.login.run([*before, COMMAND[0], str(CHECKOUT / "bin" / "dsrun-topo")])
    assert [(one.cpus, one["OMP_NUM_THREADS"]) for one in told(tmp_path)] == [({cpu}, "1")] * 2
    assert "dsrun: localhost: 2 workers share 1 core\n" in done.stderr
    assert [cpus for _, _, cpus in reported(done.stderr)] == [f"{cpu}"] * 2
    assert f"1 core: cpus {cpu}\n" in topo.stdout
    assert ("not available to dsrun" in topo.stdout) == (len(cores()) > 1)


@pytest.mark.parametrize("quota", [0.5, 1.5])
def test_threads_fit_the_quota_of_a_cgroup(
    cluster: Cluster, tmp_path: Path, here: tuple[str, ...], quota: float
) -> None:
    with cpu_cgroup("threads", quota) as group:
        before = ["sh", "-c", f'echo 0 > {group}/cgroup.procs && exec "$@"', "sh"]
        job = [*before, *COMMAND, *LOCAL, "--num_gpus", "1", *here, tell.SCRIPT]
        done = cluster.login.run(job, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert [one["OMP_NUM_THREADS"] for one in told(tmp_path)] == ["1"]
    said = (
        f"1 worker shares {quota:g} of {os.cpu_count()} CPUs, because of the CPU quota of {group};"
    )
    assert (said in done.stderr) == (quota < 1)


@pytest.mark.parametrize("narrowed", [masked, enclosed])
def test_a_core_outside_the_part_is_refused(
    cluster: Cluster, tmp_path: Path, here: tuple[str, ...], narrowed: Callable[[int], Narrowed]
) -> None:
    inside, outside = min(cores()), max(cores()) + (len(cores()) == 1)
    with narrowed(inside) as before:
        options = ("--num_gpus", "1", "--bind_core_list", f"{outside}", *here)
        done = cluster.login.run([*before, *COMMAND, *LOCAL, *options, tell.SCRIPT], cwd=tmp_path)
    assert done.returncode == 2
    assert (
        f"--bind_core_list: '{outside}': cpu {outside} may not be used here (allowed: {inside})\n"
        in done.stderr
    )
    assert not told(tmp_path)
