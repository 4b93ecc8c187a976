"""Whole cores for workers without devices, on made-up machines."""

from collections.abc import Sequence
from itertools import combinations, islice

import pytest

from dsrun.launcher.features.binding.node_plan import plan
from dsrun.launcher.features.binding.node_topology import Core, Topology, read_topology
from dsrun.launcher.specs.policies import BindingPolicy

from ...support import machines
from ...support.bindings import CORE, Row, without, written
from ...support.machines import GIB, Machine, Made, known, topology


def nowhere() -> Topology:
    """A container that hides sysfs."""
    return read_topology("/nowhere", range(4), "/nowhere")


PLANS: list[tuple[str | Machine, int, list[Row]]] = [
    ("one_socket", 1, [("0-3", 4, "")]),
    ("one_socket", 3, [("0-1", 2, ""), ("2", 1, ""), ("3", 1, "")]),
    ("interleaved", 1, [("0-15", 8, "")]),
    ("interleaved", 2, [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "bind 1")]),
    (
        "interleaved",
        3,
        [("0-2,8-10", 3, "bind 0"), ("3-5,11-13", 3, ""), ("6-7,14-15", 2, "bind 1")],
    ),
    (
        "interleaved",
        4,
        [
            ("0-1,8-9", 2, "bind 0"),
            ("2-3,10-11", 2, "bind 0"),
            ("4-5,12-13", 2, "bind 1"),
            ("6-7,14-15", 2, "bind 1"),
        ],
    ),
    ("adjacent", 2, [("0-7", 4, "bind 0"), ("8-15", 4, "bind 1")]),
    ("alternating", 2, [("0,2,4,6", 4, "bind 0"), ("1,3,5,7", 4, "bind 1")]),
    # Nodes 0 and 2 are the first socket: a worker of two nodes gets those, and their memory.
    ("clusters", 2, [("0-3", 4, "bind 0,2"), ("4-7", 4, "bind 1,3")]),
    (
        "clusters",
        4,
        [("0-1", 2, "bind 0"), ("2-3", 2, "bind 2"), ("4-5", 2, "bind 1"), ("6-7", 2, "bind 3")],
    ),
    ("sockets", 2, [("0,2,4,6", 4, "bind 0"), ("1,3,5,7", 4, "bind 1")]),
    ("hbm", 1, [("0-15", 8, "bind 0-1")]),
    ("hbm", 2, [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "bind 1")]),
    ("cxl", 2, [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "bind 1")]),
    ("grace", 2, [("0-35", 36, "bind 0"), ("36-71", 36, "bind 0")]),
    ("fake", 2, [("0-3,8-11", 4, "bind 0,2"), ("4-7,12-15", 4, "bind 1,3")]),
    (
        "xeon_max",
        8,
        [
            (f"{4 * n}-{4 * n + 3},{4 * n + 32}-{4 * n + 35}", 4, f"preferred {n + 8}")
            for n in range(8)
        ],
    ),
    (
        "xeon_max",
        2,
        [("0-15,32-47", 16, "preferred 8-11"), ("16-31,48-63", 16, "preferred 12-15")],
    ),
    ("gaps", 2, [("0-2", 3, "bind 0"), ("3-5", 3, "bind 8")]),
    # The larger share is placed so that both stay within their nodes, else at the lower rank.
    ("uneven", 2, [("0-2", 3, "bind 0"), ("3-6", 4, "bind 1")]),
    (
        "uneven",
        5,
        [
            ("0-1", 2, "bind 0"),
            ("2", 1, "bind 0"),
            ("3-4", 2, "bind 1"),
            ("5", 1, "bind 1"),
            ("6", 1, "bind 1"),
        ],
    ),
    # As many fast cores for each as for the others, and as many cores in all.
    ("hybrid", 2, [("0-5,12-15", 7, ""), ("6-11,16-19", 7, "")]),
    (
        "hybrid",
        4,
        [("0-3,12-13", 4, ""), ("4-7,14-15", 4, ""), ("8-9,16-17", 3, ""), ("10-11,18-19", 3, "")],
    ),
    ("big_little", 3, [("0,4-5", 3, ""), ("1-2,6", 3, ""), ("3,7", 2, "")]),
    ("odd_cpuset", 2, [("1", 1, "bind 0"), ("5,7,13", 2, "bind 1")]),
    ("offline", 2, [("0-1,3,10-11", 4, "bind 0"), ("4-7,12-14", 4, "bind 1")]),
    # No rule that names a node without memory, or with none that may be used.
    ("memoryless", 2, [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "")]),
    (machines.HBM._replace(mems="0,2"), 2, [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "")]),
    (machines.INTERLEAVED._replace(memory={0: GIB, 1: 0}), 1, [("0-15", 8, "")]),
]


@pytest.mark.parametrize(("machine", "workers", "shares"), PLANS)
def test_whole_cores_in_numa_order(machine: str | Machine, workers: int, shares: list[Row]) -> None:
    assert written(plan(known(machine), without(workers), CORE)) == shares


def test_a_container_without_sysfs_shares_its_cpus() -> None:
    assert written(plan(nowhere(), without(2), CORE)) == [("0-1", 2, ""), ("2-3", 2, "")]
    made = plan(nowhere(), [0, 1], CORE)
    assert written(made) == [("0-1", 2, ""), ("2-3", 2, "")]
    assert made.notes == (
        "device of local rank 1: no usable core on NUMA node 1, so node 0 is used",
    )


def sizes_by_hand(nodes: Sequence[int], workers: int) -> int:
    """Return the fewest NUMA nodes that any even division touches, summed over the shares."""
    base, larger = divmod(len(nodes), workers)
    counts = []
    for ranks in combinations(range(workers), larger):
        left = iter(nodes)
        sizes = [base + (rank in ranks) for rank in range(workers)]
        counts.append(sum(len(set(islice(left, size))) for size in sizes))
    return min(counts)


@pytest.mark.parametrize(
    "counts", [(4, 4), (3, 4), (1, 1, 1), (1, 2, 3), (5, 1, 3), (4, 3, 4), (2, 7, 2), (2, 2, 2, 2)]
)
def test_shares_touch_the_fewest_nodes(counts: Sequence[int]) -> None:
    nodes = [node for node, count in enumerate(counts) for _ in range(count)]
    read = bare([Core((cpu,), node, node) for cpu, node in enumerate(nodes)])
    for workers in range(1, len(nodes) + 1):
        made = plan(read, without(workers), CORE)
        touched = sum(len({nodes[cpu] for cpu in b.cpus}) for b in made.bindings)
        assert touched == sizes_by_hand(nodes, workers)


def bare(made: Sequence[Core], memory: int = 0) -> Topology:
    return Topology(tuple(made), frozenset(range(memory)), {}, {}, {})


def test_many_workers_are_planned_without_recursion() -> None:
    read = bare([Core((cpu,), cpu // 250, cpu // 500) for cpu in range(1250)], memory=5)
    made = plan(read, without(1200), CORE)
    assert sum(binding.cores for binding in made.bindings) == 1250


def test_more_workers_than_cores_share_them() -> None:
    machine = Machine([Made((0, 2), 0, 0), Made((1, 3), 1, 1)], {0: GIB, 1: GIB})
    made = plan(topology(machine), without(8), CORE)
    assert written(made) == [("0,2", 1, "bind 0"), ("1,3", 1, "bind 1")] * 4
    assert made.notes == ("8 workers share 2 cores",)


def test_fast_cores_are_shared_first() -> None:
    made = plan(known("hybrid"), without(17), CORE)
    assert [row[0] for row in written(made)][:7] == [
        "0-1",
        "2-3",
        "4-5",
        "6-7",
        "8-9",
        "10-11",
        "12",
    ]
    assert made.notes == ("6 workers share 3 cores",)


def test_only_the_first_threads() -> None:
    made = plan(known("interleaved"), without(2), BindingPolicy("core", smt=False))
    assert written(made) == [("0-3", 4, "bind 0"), ("4-7", 4, "bind 1")]
    made = plan(known("odd_cpuset"), without(1), BindingPolicy("core", smt=False))
    assert written(made) == [("1,5,7", 3, "")]
