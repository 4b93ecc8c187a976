"""NUMA nodes: which have cpus and memory, which memory is fast, and what is near."""

from pathlib import Path

import pytest

from dsrun.launcher.features.binding.node_topology import numa_nodes, read_topology

from ...support import machines
from ...support.machines import Machine, build, known


@pytest.mark.parametrize(
    ("machine", "nodes"),
    [
        ("one_socket", 1),
        ("snc4", 8),
        ("hbm", 2),
        ("grace", 1),
        ("fake", 2),
        (machines.INTERLEAVED._replace(allowed=(4, 5)), 1),
    ],
)
def test_numa_nodes_with_usable_cpus_count(machine: str | Machine, nodes: int) -> None:
    assert numa_nodes(known(machine)) == nodes


@pytest.mark.parametrize(
    ("machine", "nodes"),
    [
        ("hbm", {0, 1, 2, 3}),
        (machines.HBM._replace(mems="1,3"), {1, 3}),
        ("memoryless", {0, 2}),
        ("gaps", {0, 8, 252}),
        ("grace", {0, 1}),
    ],
)
def test_memory_that_is_there_and_allowed(machine: str | Machine, nodes: set[int]) -> None:
    assert known(machine).memory_nodes == nodes


def test_all_memory_counts_where_proc_is_hidden(tmp_path: Path) -> None:
    root = build(tmp_path / "sys", machines.INTERLEAVED)
    assert read_topology(root, {0}, str(tmp_path / "nowhere")).memory_nodes == {0, 1}


@pytest.mark.parametrize(
    ("machine", "fast"),
    [
        ("xeon_max", {node: (node + 8,) for node in range(8)}),
        (machines.XEON_MAX._replace(mems="0-8"), {0: (8,)}),
        # Nothing is known; it is slower; it belongs to a device.
        ("hbm", {}),
        (machines.HBM._replace(bandwidth={2: 100_000, 3: 100_000}), {}),
        (machines.HBM._replace(bandwidth={0: 100_000, 1: 100_000}), {}),
        ("cxl", {}),
        ("grace", {}),
        (machines.GRACE._replace(devices=()), {0: (1,)}),
    ],
)
def test_memory_faster_than_a_nodes_own(
    machine: str | Machine, fast: dict[int, tuple[int, ...]]
) -> None:
    assert known(machine).fast_memory == fast


def test_parts_of_a_node_are_its_twins() -> None:
    assert known("fake").twins == {2: 0, 3: 1}
    assert not known("xeon_max").twins


def test_near_nodes_come_first() -> None:
    near = known("snc4").near
    assert near[5] == (5, 4, 6, 7, 0, 1, 2, 3)
    assert known("xeon_max").near[13][0] == 5
    assert known("gaps").near[8] == (8, 0)
