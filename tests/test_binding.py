"""Cores and memory planned for workers: on made-up machines, and bound on this one for real."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice
from pathlib import Path

import pytest

from dsrun.launcher.common.cpu_list import format_cpus, parse_core_list
from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.node.binding import apply as shares
from dsrun.launcher.node.binding import conflicts, numactl
from dsrun.launcher.node.binding.plan import Binding, Plan, plan
from dsrun.launcher.node.binding.policies import WAYS
from dsrun.launcher.node.binding.topology import Core, Topology, read_topology
from dsrun.launcher.specs.binding_policy import Manner

from . import machines
from .machines import GIB, MACHINES, Machine, Made, known, topology
from .needs import need

Row = tuple[str, int, str]

CORE = Manner("core")


def nowhere() -> Topology:
    """A container that hides sysfs."""
    return read_topology("/nowhere", range(4), "/nowhere")


def without(workers: int) -> list[int | None]:
    """So many workers without a device."""
    return [None] * workers


def written(made: Plan) -> list[Row]:
    return [(format_cpus(b.cpus), b.cores, memory(b)) for b in made.bindings]


def memory(binding: Binding) -> str:
    return f"{binding.policy} {format_cpus(binding.memory)}" if binding.policy else ""


# Whole cores, without devices

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
    # The larger share goes where it keeps both inside their nodes, else to the lower rank.
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
    """The fewest NUMA nodes touched, summed over the shares, of every even way to share out."""
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
    made = plan(known("interleaved"), without(2), Manner("core", smt=False))
    assert written(made) == [("0-3", 4, "bind 0"), ("4-7", 4, "bind 1")]
    made = plan(known("odd_cpuset"), without(1), Manner("core", smt=False))
    assert written(made) == [("1,5,7", 3, "")]


# Whole cores, near devices

EIGHT = [0, 0, 0, 0, 1, 1, 1, 1]


def test_each_worker_is_near_its_device() -> None:
    made = plan(known("dgx"), EIGHT, CORE)
    assert written(made) == [
        (f"{14 * n}-{14 * n + 13},{14 * n + 112}-{14 * n + 125}", 14, f"bind {n // 4}")
        for n in range(8)
    ]
    assert made.notes == ()


def test_the_order_of_devices_is_theirs() -> None:
    made = plan(known("interleaved"), [1, 0, 1], CORE)
    assert written(made) == [
        ("4-5,12-13", 2, "bind 1"),
        ("0-3,8-11", 4, "bind 0"),
        ("6-7,14-15", 2, "bind 1"),
    ]


def test_cores_of_a_node_without_devices_are_told() -> None:
    made = plan(known("snc4"), [2, 2], CORE)
    assert [row[1:] for row in written(made)] == [(2, "bind 2"), (1, "bind 2")]
    assert made.notes[0] == "no worker on NUMA node 0: its cores (3) are not used"
    assert len(made.notes) == 7


def test_one_unknown_device_and_all_cores_are_shared_evenly() -> None:
    made = plan(known("interleaved"), [0, None, 1, None], CORE)
    assert made.bindings == plan(known("interleaved"), without(4), CORE).bindings
    assert made.notes == (
        "devices of local ranks 1,3: NUMA node not known, so workers are spread evenly",
    )


def test_a_device_need_not_say_its_node_where_there_is_only_one() -> None:
    made = plan(known("one_socket"), [0, None], CORE)
    assert written(made) == [("0-1", 2, ""), ("2-3", 2, "")]
    assert made.notes == ()


def test_a_device_without_cores_of_its_own_node_uses_the_nearest() -> None:
    read = topology(machines.SNC4._replace(allowed=(0, 15, 16)))
    made = plan(read, [5, 4], CORE)
    assert written(made) == [("15", 1, "bind 5"), ("16", 1, "bind 5")]
    assert made.notes == (
        "device of local rank 1: no usable core on NUMA node 4, so node 5 is used",
        "no worker on NUMA node 0: its cores (1) are not used",
    )


def test_a_device_on_part_of_a_node_uses_that_node() -> None:
    made = plan(known("fake"), [3, 2], CORE)
    assert written(made) == [("4-7,12-15", 4, "bind 1,3"), ("0-3,8-11", 4, "bind 0,2")]
    assert made.notes == ()


def test_a_device_on_a_node_that_nobody_knows() -> None:
    made = plan(known("interleaved"), [0, 9], CORE)
    assert written(made) == [("0-3,8-11", 4, "bind 0"), ("4-7,12-15", 4, "bind 1")]
    assert made.notes == (
        "device of local rank 1: NUMA node not known, so workers are spread evenly",
    )


def test_workers_of_a_small_node_share_its_cores() -> None:
    made = plan(known("odd_cpuset"), [0, 0, 1], CORE)
    assert [row[0] for row in written(made)] == ["1", "1", "5,7,13"]
    assert made.notes == ("2 workers share 1 core",)


# The other ways

WAY_PLANS: list[tuple[str, str, list[int | None], list[str]]] = [
    ("numa", "interleaved", [1, 0, 1], ["4-7,12-15", "0-3,8-11", "4-7,12-15"]),
    ("numa", "clusters", without(4), ["0-1", "2-3", "4-5", "6-7"]),
    ("numa", "snc4", without(2), ["0-2,24-26", "12-14,36-38"]),
    ("numa", "interleaved", without(3), ["0-3,8-11", "0-3,8-11", "4-7,12-15"]),
    ("socket", "clusters", [3, 0], ["4-7", "0-3"]),
    ("socket", "clusters", without(3), ["0-3", "0-3", "4-7"]),
    ("socket", "sockets", [1, 0], ["1,3,5,7", "0,2,4,6"]),
    ("exclusive", "interleaved", [1, 1], ["4-5,12-13", "6-7,14-15"]),
    ("exclusive", "uneven", without(4), ["0-1", "2", "3-4", "5-6"]),
    ("core-complex", "epyc_nps1", [0] * 3, ["0-3,32-35", "4-7,36-39", "8-11,40-43"]),
    ("core-complex", "epyc_nps4", [2, 2, 2], ["16-19,48-51", "20-23,52-55", "16-19,48-51"]),
    ("core-complex", "epyc_nps4", without(2), ["0-3,32-35", "16-19,48-51"]),
    ("core-complex", "shared_l2", [1, 0], ["8-11", "0-3"]),
    ("core-complex", "no_l3", [0, 1], ["0-5", "6-11"]),
]


@pytest.mark.parametrize(("way", "name", "seats", "cpus"), WAY_PLANS)
def test_ways(way: str, name: str, seats: list[int | None], cpus: list[str]) -> None:
    assert [row[0] for row in written(plan(known(name), seats, Manner(way)))] == cpus


def test_nothing_is_bound_by_no_way() -> None:
    assert plan(known("interleaved"), [0, 1], Manner("none")) == Plan((), ())


def test_a_node_with_too_few_cores_for_workers_of_its_own() -> None:
    with pytest.raises(UsageError) as caught:
        plan(known("odd_cpuset"), [1, 0, 0], Manner("exclusive"))
    assert str(caught.value) == (
        "--numa_binding exclusive: NUMA node 0 has 2 workers, and cores that may be used: 1;"
        " start fewer, or use --bind_to core"
    )


def test_the_fullest_caches_come_first() -> None:
    read = topology(machines.EPYC_NPS1._replace(allowed=(0, 4, 5, 6, 8, 9)))
    made = plan(read, without(4), Manner("core-complex"))
    assert [row[0] for row in written(made)] == ["4-6", "8-9", "0", "4-6"]
    assert made.notes == ("2 workers share 1 core complex",)


# Memory


@pytest.mark.parametrize(
    ("machine", "seats", "asked", "rules"),
    [
        ("interleaved", [0, 1], "auto", ["bind 0", "bind 1"]),
        ("interleaved", [0, 1], "bind", ["bind 0", "bind 1"]),
        ("interleaved", [0, 1], "preferred", ["preferred 0", "preferred 1"]),
        ("interleaved", [0, 1], "none", ["", ""]),
        ("interleaved", [None], "interleave", ["interleave 0-1"]),
        ("clusters", [None, None], "preferred", ["preferred 0,2", "preferred 1,3"]),
        ("clusters", [None, None], "interleave", ["interleave 0,2", "interleave 1,3"]),
        ("fake", [0, 3], "interleave", ["interleave 0,2", "interleave 1,3"]),
        # Asked for by name, a rule is for the node's own memory.
        ("xeon_max", [0, 7], "bind", ["bind 0", "bind 7"]),
        ("xeon_max", [0, 7], "auto", ["preferred 8", "preferred 15"]),
        # Only node 0 has faster memory that may be used.
        (
            machines.XEON_MAX._replace(mems="0-8"),
            [None, None],
            "auto",
            ["bind 0-3", "bind 4-7"],
        ),
        # Node 1's memory may not be used, so cores there get no rule.
        ("one_nodes_memory", [0, 1, 3], "auto", ["bind 0", "", "bind 3"]),
    ],
)
def test_memory_rules(
    machine: str | Machine, seats: list[int | None], asked: str, rules: list[str]
) -> None:
    made = plan(known(machine), seats, Manner("core", memory=asked))
    assert [row[2] for row in written(made)] == rules
    assert not [note for note in made.notes if "memory" in note]


@pytest.mark.parametrize(
    ("name", "seats", "asked", "why"),
    [
        ("one_socket", [0], "bind", "no rule, as there are no two NUMA nodes with memory here"),
        ("interleaved", [None], "bind", "no rule for cores on all NUMA nodes"),
        ("interleaved", [0], "interleave", "no rule for cores on one NUMA node"),
        (
            "memoryless",
            [1],
            "bind",
            "no rule for cores on a NUMA node whose memory may not be used",
        ),
    ],
)
def test_a_rule_that_cannot_be_is_told(
    name: str, seats: list[int | None], asked: str, why: str
) -> None:
    made = plan(known(name), seats, Manner("core", memory=asked))
    assert [row[2] for row in written(made)] == [""]
    assert f"--bind_memory {asked}: {why}" in made.notes


# What holds on every machine


def seatings(name: str, workers: int, dice: random.Random) -> Iterator[list[int | None]]:
    """No devices; devices on nodes in order; anywhere, memory's and unknown nodes included."""
    nodes = sorted({core.node for core in known(name).cores})
    yield without(workers)
    yield [nodes[worker * len(nodes) // workers] for worker in range(workers)]
    yield [dice.choice(nodes) for _ in range(workers)]
    yield [dice.choice([*MACHINES[name].memory, 99, None]) for _ in range(workers)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MACHINES)
def test_a_plan_holds_its_promises(name: str, way: str) -> None:
    dice = random.Random(f"{name} {way}")
    for workers in range(1, 18):
        for seats in seatings(name, workers, dice):
            manner = Manner(way, smt=dice.random() < 0.8, memory=dice.choice(MEMORY))
            try:
                made = plan(known(name), seats, manner)
            except UsageError:
                assert way == "exclusive"
                assert too_few(known(name), seats)
                continue
            Promises(known(name), seats, manner, made).check()


MEMORY = ("auto", "bind", "preferred", "interleave", "none")


def too_few(read: Topology, seats: Sequence[int | None]) -> bool:
    """Whether some node may have more workers than cores."""
    return len(seats) > min(Counter(core.node for core in read.cores).values())


class Promises:
    """What a plan must keep to, whatever the machine."""

    def __init__(
        self, read: Topology, seats: Sequence[int | None], manner: Manner, made: Plan
    ) -> None:
        self.read, self.seats, self.manner, self.made = read, seats, manner, made
        self.cores = [
            core if manner.smt else core._replace(cpus=core.cpus[:1]) for core in read.cores
        ]
        self.owned = [
            [core for core in self.cores if set(core.cpus) <= set(b.cpus)] for b in made.bindings
        ]

    def check(self) -> None:
        assert len(self.made.bindings) == len(self.seats)
        self.check_whole_cores()
        self.check_memory()
        self.check_places()
        if self.manner.way in {"core", "exclusive"}:
            self.check_own_cores()

    def check_whole_cores(self) -> None:
        for binding, owned in zip(self.made.bindings, self.owned, strict=True):
            assert owned
            assert binding.cores == len(owned)
            assert sorted(cpu for core in owned for cpu in core.cpus) == list(binding.cpus)

    def check_memory(self) -> None:
        for binding in self.made.bindings:
            assert set(binding.memory) <= self.read.memory_nodes
            assert bool(binding.memory) == bool(binding.policy)
            if binding.policy in {"bind", "preferred"}:
                assert set(binding.memory) < self.read.memory_nodes
            if self.manner.memory not in {"auto", binding.policy}:
                assert not binding.policy

    def check_places(self) -> None:
        """Near the device, where every device's node has usable cores."""
        nodes = {core.node for core in self.cores}
        if not set(self.seats) <= nodes:
            return
        for seat, owned in zip(self.seats, self.owned, strict=True):
            near = [core for core in self.cores if core.node == seat]
            if self.manner.way == "socket":
                packages = {core.package for core in near}
                near = [core for core in self.cores if core.package in packages]
            assert set(owned) <= set(near)
            if self.manner.way in {"numa", "socket"}:
                assert owned == near
            if self.manner.way == "core-complex":
                assert len({core.cache for core in owned}) == 1
                assert len(owned) == sum(core.cache == owned[0].cache for core in near)

    def check_own_cores(self) -> None:
        """Each group of workers with the same cores to share out has them all, and evenly."""
        for group in self.groups():
            pool = [core for core in self.cores if core.node in group[0]]
            sizes = [len(self.owned[rank]) for rank in group[1]]
            uses = Counter(core for rank in group[1] for core in self.owned[rank])
            assert set(uses) <= set(pool)
            if len(group[1]) <= len(pool):
                assert set(uses) == set(pool)
                assert set(uses.values()) == {1}
                self.check_even(sizes)
                for kind in {core.kind for core in pool}:
                    self.check_even(
                        [sum(c.kind == kind for c in self.owned[rank]) for rank in group[1]]
                    )
            else:
                assert set(sizes) == {1}
                self.check_even(list(uses.values()))
                assert any("share" in note for note in self.made.notes)

    @staticmethod
    def check_even(sizes: Sequence[int]) -> None:
        assert max(sizes) - min(sizes) <= 1

    def groups(self) -> list[tuple[set[int], list[int]]]:
        """The nodes and ranks that were shared out together."""
        nodes = {core.node for core in self.cores}
        ranks = range(len(self.seats))
        if self.manner.way == "core" and (
            set(self.seats) == {None} or any("evenly" in note for note in self.made.notes)
        ):
            return [(nodes, list(ranks))]
        homes = [{core.node for core in owned} for owned in self.owned]
        assert all(len(home) == 1 for home in homes)
        return [
            ({node}, [rank for rank in ranks if homes[rank] == {node}])
            for node in nodes
            if {node} in homes
        ]


# The core list


@pytest.mark.parametrize(
    ("core_list", "shares"),
    [
        ("0-3", [("0-1", 2, "bind 0"), ("2-3", 2, "bind 0")]),
        ("4-5,0", [("0", 1, "bind 0"), ("4-5", 2, "bind 1")]),
        ("1,9,6", [("1,9", 1, "bind 0"), ("6", 1, "bind 1")]),
        ("15", [("15", 1, "bind 1"), ("15", 1, "bind 1")]),
    ],
)
def test_a_core_list_is_all_that_is_used(core_list: str, shares: list[Row]) -> None:
    assert (
        written(plan(known("interleaved"), without(2), Manner("core", core_list=core_list)))
        == shares
    )


def test_a_core_list_cannot_widen_what_is_allowed() -> None:
    read = topology(machines.INTERLEAVED._replace(allowed=(0, 1, 2, 8)))
    with pytest.raises(UsageError) as caught:
        plan(read, without(2), Manner("core", core_list="2-4,9"))
    assert str(caught.value) == (
        "--bind_core_list: '2-4,9': cpu 3-4,9 may not be used here (allowed: 0-2,8)"
    )


def test_a_core_list_may_leave_a_device_without_cores() -> None:
    made = plan(known("interleaved"), [0, 1], Manner("core", core_list="0-2"))
    assert written(made) == [("0-1", 2, "bind 0"), ("2", 1, "bind 0")]
    assert made.notes == (
        "device of local rank 1: no usable core on NUMA node 1, so node 0 is used",
    )


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("1,3-5", (1, 3, 4, 5)),
        ("8-9,0-1", (0, 1, 8, 9)),
        (" 0 , 2-3 ", (0, 2, 3)),
        ("4-4", (4,)),
    ],
)
def test_core_lists_are_read(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_core_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", ""),
        ("1,", ""),
        ("a", "a"),
        ("0,5-3", "5-3"),
        ("-1", "-1"),
        ("1-2-3", "1-2-3"),
        ("0-99999999999", "0-99999999999"),
        ("99999999999", "99999999999"),
        ("1:3", "1:3"),
        ("1 2", "1 2"),
        ("\u0661", "\u0661"),
    ],
)
def test_a_bad_core_list_names_the_bad_part(text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list(text)
    assert str(caught.value) == (
        f"--bind_core_list: '{part}': expected cpu numbers, such as '1' or '3-5'"
    )


def test_a_core_list_may_not_name_a_cpu_twice() -> None:
    with pytest.raises(UsageError) as caught:
        parse_core_list("0-4,3-5", where="DSRUN_BIND_CORE_LIST")
    assert str(caught.value) == "DSRUN_BIND_CORE_LIST: '0-4,3-5': cpu 3-4 is listed twice"


@pytest.mark.parametrize(
    ("cpus", "text"),
    [((), ""), ((0,), "0"), ((0, 1), "0-1"), ((8, 0, 3, 1, 2), "0-3,8"), ((1, 3, 5, 1), "1,3,5")],
)
def test_cpus_are_written_the_kernels_way(cpus: Sequence[int], text: str) -> None:
    assert format_cpus(cpus) == text


# Variables of the user's


def test_kmp_affinity_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        conflicts.conflicts({"KMP_AFFINITY": "compact", "OMP_PLACES": "cores"})
    assert str(caught.value) == (
        "KMP_AFFINITY=compact: it places threads against the binding of cores;"
        " unset it, or leave out --bind_cores_to_rank"
    )


@pytest.mark.parametrize(
    ("environ", "kept"),
    [
        ({"OMP_PLACES": "cores"}, "OMP_PLACES=cores"),
        ({"GOMP_CPU_AFFINITY": "0-3"}, "GOMP_CPU_AFFINITY=0-3"),
        (
            {"OMP_PLACES": "cores", "GOMP_CPU_AFFINITY": "0 2"},
            "GOMP_CPU_AFFINITY=0 2, OMP_PLACES=cores",
        ),
    ],
)
def test_other_affinities_are_kept_and_told(environ: Mapping[str, str], kept: str) -> None:
    text = f"kept as set: {kept}; threads are placed by that, within the cores bound"
    assert conflicts.conflicts(environ) == text


@pytest.mark.parametrize("environ", [{}, {"OMP_NUM_THREADS": "4"}, {"KMP_AFFINITY": ""}])
def test_nothing_is_told_without_a_conflict(environ: Mapping[str, str]) -> None:
    assert conflicts.conflicts(environ) is None


def test_an_engine_that_left_too_few_cores_is_named() -> None:
    environ = {"SLURM_CPU_BIND": "quiet,mask_cpu:0x1", "HYDRA_BINDING": ""}
    assert conflicts.confinement(environ, 1, 2) == (
        "cores that may be used here: 1, perhaps because of SLURM_CPU_BIND=quiet,mask_cpu:0x1"
    )
    assert conflicts.confinement(environ, 2, 2) is None
    assert conflicts.confinement({}, 1, 2) is None


# The command


@pytest.mark.parametrize(
    ("memory", "policy", "words"),
    [
        ((0,), "bind", ["-m", "0"]),
        ((0, 2), "bind", ["-m", "0,2"]),
        ((8,), "preferred", ["-p", "8"]),
        ((8, 9), "preferred", ["-P", "8-9"]),
        ((0, 1), "interleave", ["-i", "0-1"]),
        ((), "", []),
    ],
)
def test_numactl_is_told_cpus_and_memory(
    memory: tuple[int, ...], policy: str, words: list[str]
) -> None:
    bound = Binding((0, 1, 2, 3, 8), 5, memory, policy)
    assert numactl.argv(bound, "/bin/numactl") == ["/bin/numactl", "-C", "0-3,8", *words, "--"]


def fake_numactl(folder: Path, text: str) -> str:
    program = folder / "numactl"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
    program.chmod(0o700)
    return str(folder)


BOUND = [Binding((0,), 1, (0,), "bind"), Binding((1,), 1, (0, 1), "preferred"), Binding((2,), 1)]


def test_without_a_rule_for_memory_numactl_is_not_needed(tmp_path: Path) -> None:
    said: list[str] = []
    path = fake_numactl(tmp_path, f"touch {tmp_path}/ran")
    assert numactl.prefixes([BOUND[2]] * 2, path, said.append) == [(), ()]
    assert not said
    assert not (tmp_path / "ran").exists()


def test_no_numactl_no_rule_for_memory(tmp_path: Path) -> None:
    said: list[str] = []
    assert numactl.prefixes(BOUND, f"{tmp_path}:/nowhere", said.append) == [()] * 3
    assert said == ["no numactl here: cores are bound by affinity alone, memory is not"]


def test_numactl_is_tried_once_for_each_policy(tmp_path: Path) -> None:
    said: list[str] = []
    path = fake_numactl(tmp_path, f'echo "$3" >> {tmp_path}/tried')
    tool = f"{tmp_path}/numactl"
    assert (
        numactl.prefixes(BOUND * 2, path, said.append)
        == [(tool, "-C", "0", "-m", "0", "--"), (tool, "-C", "1", "-P", "0-1", "--"), ()] * 2
    )
    assert sorted((tmp_path / "tried").read_text().split()) == ["-P", "-m"]
    assert not said


@pytest.mark.parametrize(
    "text", ['test "$3" != -P', 'if [ "$3" = -P ]; then kill -9 $$; fi'], ids=["fails", "is killed"]
)
def test_a_policy_that_is_forbidden_is_left_out(tmp_path: Path, text: str) -> None:
    said: list[str] = []
    found = numactl.prefixes(BOUND, fake_numactl(tmp_path, text), said.append)
    assert found == [(f"{tmp_path}/numactl", "-C", "0", "-m", "0", "--"), (), ()]
    assert said == [
        "numactl may not set the memory policy 'preferred-many' here: only cores are bound"
    ]


def test_a_numactl_that_is_no_program_is_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "numactl").write_bytes(b"\x7fELF")
    (tmp_path / "numactl").chmod(0o700)
    assert numactl.prefixes(BOUND[:1], str(tmp_path), said.append) == [()]
    assert said == ["numactl may not set the memory policy 'bind' here: only cores are bound"]


# Here

SHOW_AFFINITY = "import json, os; print(json.dumps(sorted(os.sched_getaffinity(0))))"
SHOW_SHARES = """
import json
from dsrun.launcher.specs.binding_policy import Manner
from dsrun.launcher.node.binding import apply as shares
said = []
shares = shares.bound(Manner("core"), [None, None], "/nowhere", said.append)
print(json.dumps([[(one.cpus, one.threads) for one in shares], said]))
"""


# Under the name `dsrun`, this checkout's.
HERE = {"PYTHONPATH": str(Path(__file__).with_name("import"))}


def run(argv: Sequence[str], **environ: str) -> str:
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, env={**os.environ, **HERE, **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numactl_binds_each_worker_to_its_share() -> None:
    need("numactl")
    read = read_topology()
    for binding in plan(read, without(len(read.cores)), CORE).bindings:
        argv = numactl.argv(binding, shutil.which("numactl") or "")
        shown = run([*argv, sys.executable, "-c", SHOW_AFFINITY])
        assert json.loads(shown) == list(binding.cpus)


@pytest.mark.parametrize(
    ("policy", "shown"),
    [("bind", "bind"), ("preferred", "preferred"), ("interleave", "interleave")],
)
def test_numactl_takes_the_memory_rule(policy: str, shown: str) -> None:
    need("numactl")
    tool = shutil.which("numactl") or ""
    node = min(read_topology().memory_nodes)
    bound = Binding(tuple(sorted(os.sched_getaffinity(0))), 1, (node,), policy)
    probe = subprocess.run([tool, "-m", str(node), "true"], capture_output=True, check=False)
    if b"not permitted" in probe.stderr:
        pytest.skip("set_mempolicy(2) is forbidden here, as in a container without CAP_SYS_NICE")
    assert f"policy: {shown}" in run([*numactl.argv(bound, tool), tool, "--show"])
    said: list[str] = []
    assert numactl.prefixes([bound], os.path.dirname(tool), said.append) == [  # noqa: PTH120
        tuple(numactl.argv(bound, tool))
    ]
    assert not said


def test_numactl_leaves_the_command_its_dashes(tmp_path: Path) -> None:
    need("numactl")
    program = tmp_path / "-m"
    program.write_text('#!/bin/sh\nprintf "%s;" "$@"\n', encoding="ascii")
    program.chmod(0o700)
    bound = Binding((min(os.sched_getaffinity(0)),), 1)
    argv = [*numactl.argv(bound, shutil.which("numactl") or ""), "-m", "-C", "7", "--", "a b"]
    assert run(argv, PATH=f"{tmp_path}:{os.environ['PATH']}") == "-C;7;--;a b;"


def test_a_narrowed_launcher_plans_inside_its_mask() -> None:
    need("taskset")
    cpu = min(os.sched_getaffinity(0))
    shown = run(
        ["taskset", "-c", str(cpu), sys.executable, "-c", SHOW_SHARES], SLURM_CPU_BIND="cores"
    )
    assert json.loads(shown) == [
        [[[cpu], 1], [[cpu], 1]],
        [
            "2 workers share 1 core",
            "cores that may be used here: 1, perhaps because of SLURM_CPU_BIND=cores",
        ],
    ]


def test_a_narrowed_launcher_binds_inside_its_mask() -> None:
    need("taskset", "numactl")
    cpu = max(os.sched_getaffinity(0))
    argv = numactl.argv(Binding((cpu,), 1), shutil.which("numactl") or "")
    shown = run(["taskset", "-c", str(cpu), *argv, sys.executable, "-c", SHOW_AFFINITY])
    assert json.loads(shown) == [cpu]


def test_workers_on_the_same_cores_share_the_threads() -> None:
    allowed = sorted(os.sched_getaffinity(0))
    here = len(read_topology().cores)
    manner, seats = Manner("socket", memory="none"), [0] * here
    found = shares.bound(manner, seats, os.defpath, print)
    for share, bound in zip(found, plan(read_topology(), seats, manner).bindings, strict=True):
        assert share.cpus == bound.cpus
        assert set(share.cpus) <= set(allowed)
        assert share.threads * here <= bound.cores


def test_no_way_leaves_the_threads_that_fall_to_each() -> None:
    assert shares.bound(Manner("none"), [0, None], "", print) == shares.unbound(2)


def test_what_cannot_be_bound_is_told_before_the_start() -> None:
    assert shares.check({}, CORE) == ""
    assert shares.check({"OMP_PLACES": "cores"}, CORE).startswith("kept as set: OMP_PLACES=cores;")
    with pytest.raises(UsageError, match="--bind_core_list"):
        shares.check({}, Manner("core", core_list="99999"))
    with pytest.raises(UsageError, match="--numa_binding exclusive: NUMA node"):
        shares.check({}, Manner("exclusive"), [0] * 5000)


def test_planning_loads_nothing_slow() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "from dsrun.launcher.specs.binding_policy import Manner\n"
        "from dsrun.launcher.node.binding import apply as shares\n"
        "shares.bound(Manner('core'), [None] * 2, '', print)\n"
        "print(sorted(set(sys.modules) - before))"
    )
    loaded = run([sys.executable, "-c", code])
    assert "dsrun.launcher.node.binding.topology" in loaded
    for name in ("pathlib", "glob", "fnmatch", "argparse", "logging", "typing", "torch"):
        assert f"'{name}'" not in loaded
