"""Workers near their devices, as reported by firmware."""

from dsrun.launcher.features.binding.node_device_nodes import DeviceNodes, find_homes
from dsrun.launcher.features.binding.node_plan import plan

from ...support import machines
from ...support.bindings import CORE, without, written
from ...support.machines import known, topology

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
        "devices of local ranks 1,3: NUMA node unknown, so workers are spread evenly",
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
        "device of local rank 1: NUMA node unknown, so workers are spread evenly",
    )


def test_workers_of_a_small_node_share_its_cores() -> None:
    made = plan(known("odd_cpuset"), [0, 0, 1], CORE)
    assert [row[0] for row in written(made)] == ["1", "1", "5,7,13"]
    assert made.notes == ("2 workers share 1 core",)


def test_without_devices_nothing_is_decided_and_nothing_said() -> None:
    machine = known("interleaved")
    assert find_homes(machine, {0, 1}, [None, None]) == DeviceNodes(None, [])
    lost = find_homes(machine, {0, 1}, [None, None], devices=True)
    said = "devices of local ranks 0-1: NUMA node unknown, so workers are spread evenly"
    assert lost == DeviceNodes(None, [said])
