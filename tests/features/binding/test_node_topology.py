"""The topology that is read: of made-up machines of many kinds, and of this one."""

import os
import shutil
from pathlib import Path

import pytest

from dsrun.launcher.features.binding.node_topology import Core, Topology, read_topology

from ...support import machines
from ...support.machines import GIB, MACHINES, Machine, Made, build, known, topology, write


def cpus_of(read: Topology) -> list[tuple[int, ...]]:
    return [core.cpus for core in read.cores]


def whole(machine: Machine) -> list[Core]:
    """Return the machine's cores as they should be read, except for their caches and kinds."""
    cut = [(tuple(cpu for cpu in made.cpus if cpu in machine.cpus), made) for made in machine.cores]
    cores = [Core(cpus, made.node, made.package) for cpus, made in cut if cpus]
    return sorted(cores, key=lambda core: core.cpus)


# Cores


@pytest.mark.parametrize("name", MACHINES)
def test_every_core_is_read_whole(name: str) -> None:
    read = [core._replace(cache=0, kind=0) for core in known(name).cores]
    assert read == whole(MACHINES[name])


@pytest.mark.parametrize("name", ["interleaved", "sockets", "epyc_nps1"])
def test_older_kernels_have_other_names(name: str) -> None:
    assert topology(MACHINES[name], old=True) == known(name)


def test_cpus_switched_off_are_left_out(tmp_path: Path) -> None:
    machine = machines.OFFLINE
    root = build(tmp_path, machine)
    read = read_topology(root, {cpu for core in machine.cores for cpu in core.cpus})
    assert cpus_of(read) == [(0,), (1,), (3, 11), (4, 12), (5, 13), (6, 14), (7,), (10,)]


def test_files_that_leave_no_cpu_are_not_believed(tmp_path: Path) -> None:
    write(tmp_path / "devices/system/cpu/offline", "1-3")
    assert cpus_of(read_topology(str(tmp_path), [1])) == [(1,)]


def test_without_sysfs_every_cpu_is_a_core_on_node_0(tmp_path: Path) -> None:
    read = read_topology(str(tmp_path / "nowhere"), [5, 2, 7])
    cores = tuple(Core((cpu,), 0, 0, cache=2) for cpu in (2, 5, 7))
    assert read == Topology(cores, frozenset(), {}, {}, {})


def test_cores_are_known_where_only_nodes_are_hidden(tmp_path: Path) -> None:
    root = Path(build(tmp_path, machines.INTERLEAVED))
    shutil.rmtree(root / "devices/system/node")
    read = read_topology(str(root), [0, 8, 4])
    assert read.cores == (Core((0, 8), 0, 0, cache=0), Core((4,), 0, 1, cache=4))
    assert not read.memory_nodes


def test_a_cpu_that_no_node_lists_is_on_node_0(tmp_path: Path) -> None:
    root = Path(build(tmp_path, machines.GAPS))
    write(root / "devices/system/node/node8/cpulist", "3-4")
    nodes = [core.node for core in read_topology(str(root), range(6)).cores]
    assert nodes == [0, 0, 0, 8, 8, 0]


def test_a_package_that_firmware_does_not_know_is_0(tmp_path: Path) -> None:
    root = build(tmp_path, Machine([Made((0,), package=-1)], {0: GIB}))
    assert read_topology(root, [0]).cores[0].package == 0


def test_a_cpu_claimed_by_two_cores_is_used_once(tmp_path: Path) -> None:
    root = Path(build(tmp_path, machines.ONE_SOCKET))
    write(root / "devices/system/cpu/cpu0/topology/core_cpus_list", "0-1")
    write(root / "devices/system/cpu/cpu2/topology/core_cpus_list", "1-2")
    assert cpus_of(read_topology(str(root), range(4))) == [(0, 1), (2,), (3,)]


def test_this_process_is_asked_when_no_cpus_are_given() -> None:
    cores = read_topology().cores
    assert {cpu for core in cores for cpu in core.cpus} == os.sched_getaffinity(0)


# Caches and kinds


@pytest.mark.parametrize(
    ("machine", "groups"),
    [
        ("one_socket", [0] * 4),
        ("interleaved", [0] * 4 + [4] * 4),
        ("epyc_nps4", [first for first in range(0, 32, 4) for _ in range(4)]),
        ("grace", [0] * 72),
        # The level 3 counts, not the level 2 that four slow cores share.
        ("hybrid", [0] * 14),
        # Without a level 3: the level 2 where several cores share it, else the node.
        ("shared_l2", [0] * 4 + [4] * 4 + [8] * 4 + [12] * 4),
        ("no_l3", [0] * 6 + [6] * 6),
        # A level 2 that only the other thread shares, which may not be used.
        (Machine([Made((0, 1)), Made((2, 3))], {0: GIB}, allowed=(0, 2)), [0, 0]),
        # The lowest that shares it, though cpu 0 and cpu 4 may not be used.
        ("odd_cpuset", [0, 4, 4]),
    ],
)
def test_cores_are_grouped_by_their_last_cache(machine: str | Machine, groups: list[int]) -> None:
    assert [core.cache for core in known(machine).cores] == groups


def test_cores_beside_a_level_3_form_groups_of_their_own() -> None:
    """Intel's low-power cores do not share the others' level 3."""
    cores = [Made((0,), l3=0), Made((1,), l3=0), Made((2,), l2=1), Made((3,), l2=1)]
    read = topology(Machine(cores, {0: GIB}))
    assert [core.cache for core in read.cores] == [0, 0, 2, 2]


@pytest.mark.parametrize(
    ("machine", "kinds"),
    [
        ("interleaved", [0] * 8),
        ("hybrid", [0] * 6 + [1] * 8),
        (machines.HYBRID._replace(allowed=(3, 12, 13)), [0, 1, 1]),
        ("big_little", [1] * 4 + [0] * 4),
        ("grace", [0] * 72),
    ],
)
def test_kinds_of_cores_are_told_apart(machine: str | Machine, kinds: list[int]) -> None:
    assert [core.kind for core in known(machine).cores] == kinds


def test_three_capacities_are_three_kinds() -> None:
    cores = [Made((cpu,), capacity=size) for cpu, size in enumerate((1024, 700, 250, 240))]
    read = topology(Machine(cores, {0: GIB}))
    assert [core.kind for core in read.cores] == [0, 1, 2, 2]
