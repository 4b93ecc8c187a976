"""What holds for every plan, on every machine and with every policy; and lists of cores."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.binding.node_plan import POLICIES, BindingPlan, plan
from dsrun.launcher.features.binding.node_topology import Topology
from dsrun.launcher.specs.policies import BindingPolicy

from ...support import machines
from ...support.bindings import Row, without, written
from ...support.machines import MACHINES, known, topology


def seatings(name: str, workers: int, dice: random.Random) -> Iterator[list[int | None]]:
    """No devices; devices on nodes in order; anywhere, including memory-only and unknown nodes."""
    nodes = sorted({core.node for core in known(name).cores})
    yield without(workers)
    yield [nodes[worker * len(nodes) // workers] for worker in range(workers)]
    yield [dice.choice(nodes) for _ in range(workers)]
    yield [dice.choice([*MACHINES[name].memory, 99, None]) for _ in range(workers)]


@pytest.mark.parametrize("way", POLICIES)
@pytest.mark.parametrize("name", MACHINES)
def test_a_plan_holds_its_promises(name: str, way: str) -> None:
    dice = random.Random(f"{name} {way}")
    for workers in range(1, 18):
        for seats in seatings(name, workers, dice):
            policy = BindingPolicy(way, smt=dice.random() < 0.8, memory=dice.choice(MEMORY))
            try:
                made = plan(known(name), seats, policy)
            except UsageError:
                assert way == "exclusive"
                assert too_few(known(name), seats)
                continue
            Promises(known(name), seats, policy, made).check()


MEMORY = ("auto", "bind", "preferred", "interleave", "none")


def too_few(read: Topology, seats: Sequence[int | None]) -> bool:
    """Return whether a node may have more workers than cores."""
    return len(seats) > min(Counter(core.node for core in read.cores).values())


class Promises:
    """What must hold for a plan on any machine."""

    def __init__(
        self, read: Topology, seats: Sequence[int | None], policy: BindingPolicy, made: BindingPlan
    ) -> None:
        self.read, self.seats, self.policy, self.made = read, seats, policy, made
        self.cores = [
            core if policy.smt else core._replace(cpus=core.cpus[:1]) for core in read.cores
        ]
        self.owned = [
            [core for core in self.cores if set(core.cpus) <= set(b.cpus)] for b in made.bindings
        ]

    def check(self) -> None:
        assert len(self.made.bindings) == len(self.seats)
        self.check_whole_cores()
        self.check_memory()
        self.check_places()
        if self.policy.bind_to in {"core", "exclusive"}:
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
            if self.policy.memory not in {"auto", binding.policy}:
                assert not binding.policy

    def check_places(self) -> None:
        """Cores are near the device if every device's node has usable ones."""
        nodes = {core.node for core in self.cores}
        if not set(self.seats) <= nodes:
            return
        for seat, owned in zip(self.seats, self.owned, strict=True):
            near = [core for core in self.cores if core.node == seat]
            if self.policy.bind_to == "socket":
                packages = {core.package for core in near}
                near = [core for core in self.cores if core.package in packages]
            assert set(owned) <= set(near)
            if self.policy.bind_to in {"numa", "socket"}:
                assert owned == near
            if self.policy.bind_to == "core-complex":
                assert len({core.cache for core in owned}) == 1
                assert len(owned) == sum(core.cache == owned[0].cache for core in near)

    def check_own_cores(self) -> None:
        """Each group of workers that divide the same cores gets all of them, evenly."""
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
        """Return the nodes and ranks that were divided together."""
        nodes = {core.node for core in self.cores}
        ranks = range(len(self.seats))
        if self.policy.bind_to == "core" and (
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
        written(plan(known("interleaved"), without(2), BindingPolicy("core", core_list=core_list)))
        == shares
    )


def test_a_core_list_cannot_widen_what_is_allowed() -> None:
    read = topology(machines.INTERLEAVED._replace(allowed=(0, 1, 2, 8)))
    with pytest.raises(UsageError) as caught:
        plan(read, without(2), BindingPolicy("core", core_list="2-4,9"))
    assert str(caught.value) == (
        "--bind_core_list: '2-4,9': cpu 3-4,9 may not be used here (allowed: 0-2,8)"
    )


def test_a_core_list_may_leave_a_device_without_cores() -> None:
    made = plan(known("interleaved"), [0, 1], BindingPolicy("core", core_list="0-2"))
    assert written(made) == [("0-1", 2, "bind 0"), ("2", 1, "bind 0")]
    assert made.notes == (
        "device of local rank 1: no usable core on NUMA node 1, so node 0 is used",
    )


def test_a_plan_tells_of_all_that_is_not_as_asked() -> None:
    policy = BindingPolicy("core", memory="bind")
    many = len(known("one_socket").cores) + 1
    made = plan(known("one_socket"), without(many), policy)
    shared, memory = made.notes
    assert shared == "2 workers share 1 core"
    assert memory.startswith("--bind_memory bind: ")
