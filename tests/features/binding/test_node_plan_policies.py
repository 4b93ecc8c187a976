"""The policies other than whole cores: what each gives a worker."""

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.binding.node_plan import BindingPlan, plan
from dsrun.launcher.specs.policies import BindingPolicy

from ...support import machines
from ...support.bindings import without, written
from ...support.machines import known, topology

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
    ("exclusive", "odd_cpuset", [1, 0], ["5,7,13", "1"]),
    ("core-complex", "epyc_nps1", [0] * 3, ["0-3,32-35", "4-7,36-39", "8-11,40-43"]),
    ("core-complex", "epyc_nps4", [2, 2, 2], ["16-19,48-51", "20-23,52-55", "16-19,48-51"]),
    ("core-complex", "epyc_nps4", without(2), ["0-3,32-35", "16-19,48-51"]),
    ("core-complex", "shared_l2", [1, 0], ["8-11", "0-3"]),
    ("core-complex", "no_l3", [0, 1], ["0-5", "6-11"]),
]


@pytest.mark.parametrize(("way", "name", "seats", "cpus"), WAY_PLANS)
def test_ways(way: str, name: str, seats: list[int | None], cpus: list[str]) -> None:
    assert [row[0] for row in written(plan(known(name), seats, BindingPolicy(way)))] == cpus


def test_nothing_is_bound_by_no_way() -> None:
    assert plan(known("interleaved"), [0, 1], BindingPolicy("none")) == BindingPlan((), ())


def test_a_node_with_too_few_cores_for_workers_of_its_own() -> None:
    with pytest.raises(UsageError) as caught:
        plan(known("odd_cpuset"), [1, 0, 0], BindingPolicy("exclusive"))
    assert str(caught.value) == (
        "--numa_binding exclusive: NUMA node 0 has 2 workers but only 1 usable core;"
        " start fewer workers, or use --bind_to core"
    )


def test_the_fullest_caches_come_first() -> None:
    read = topology(machines.EPYC_NPS1._replace(allowed=(0, 4, 5, 6, 8, 9)))
    made = plan(read, without(4), BindingPolicy("core-complex"))
    assert [row[0] for row in written(made)] == ["4-6", "8-9", "0", "4-6"]
    assert made.notes == ("2 workers share 1 core complex",)
