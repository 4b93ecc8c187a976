"""Devices: alike, healthy, and free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.features.quick_check.runner_devices import check

from ...support.node_facts import GIB, GPU, GPUS, alike, compared_node

if TYPE_CHECKING:
    from dsrun.launcher.features.quick_check.runner_findings import ComparedNode


def found(*nodes: ComparedNode) -> list[tuple[str, str, str]]:
    return [(one.code, ",".join(one.nodes), one.text) for one in check(nodes)]


def own(**changes: Any) -> ComparedNode:
    return compared_node("a", devices=(GPU._replace(**changes), *GPUS[1:]))


def test_healthy_and_alike() -> None:
    assert found(*alike("a", "b", devices=GPUS), compared_node("c")) == []


def test_another_model() -> None:
    other = compared_node("c", devices=(GPU._replace(name="A100"),), slots=(0,))
    nodes = alike("a", "b", devices=GPUS, slots=(0, 1))
    assert found(*nodes, other) == [("device-model", "c", "devices: A100, but H100 on a, b")]


def test_a_device_that_is_missing_where_all_are_used() -> None:
    nodes = alike("a", "b", devices=GPUS)
    assert found(*nodes, compared_node("c", devices=(GPU,))) == [
        ("device-count", "c", "devices: 1, but 2 on a, b")
    ]
    assert found(*nodes, compared_node("c", devices=(GPU,), slots=(0,))) == []
    assert found(*nodes, compared_node("c", devices=(*GPUS, GPU._replace(id="2")))) == []


def test_what_the_driver_reports() -> None:
    assert found(own(problems=("3 uncorrectable errors",))) == [
        ("device-problem", "a", "device 0: 3 uncorrectable errors")
    ]


def test_processes_of_others() -> None:
    busy = tuple(one._replace(users=("pid 12 (alice)",), free=GIB) for one in GPUS)
    assert found(compared_node("a", devices=busy)) == [
        ("device-users", "a", "devices 0, 1 in use by pid 12 (alice)")
    ]


def test_memory_that_nobody_seems_to_use() -> None:
    assert found(own(free=63 * GIB)) == [("device-memory", "a", "device 0 with only 63 GiB free")]
    assert found(own(free=65 * GIB)) == []
    assert found(own(free=0, total=0)) == []


def test_devices_that_the_job_does_not_use() -> None:
    busy = (GPU._replace(users=("pid 12 (alice)",)), GPUS[1])
    assert found(compared_node("a", devices=busy, slots=(1,))) == []
    assert len(found(compared_node("a", devices=busy, slots=(0,)))) == 1
    masked = (GPU._replace(id="1", users=("x",)), GPU)
    assert found(compared_node("a", devices=masked, slots=(1,))) == []
    named = (GPU._replace(id="GPU-1", users=("x",)), GPUS[1])
    assert len(found(compared_node("a", devices=named, slots=("GPU-1",)))) == 1
    assert len(found(compared_node("a", devices=named, slots=(0,)))) == 1
