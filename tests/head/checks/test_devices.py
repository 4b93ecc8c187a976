"""Devices: alike, healthy, and free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.checks.devices import check

from ...support.node_facts import GIB, GPU, GPUS, alike, subject

if TYPE_CHECKING:
    from dsrun.launcher.head.checks.compared_node import Subject


def found(*nodes: Subject) -> list[tuple[str, str, str]]:
    return [(one.code, ",".join(one.nodes), one.text) for one in check(nodes)]


def own(**changes: Any) -> Subject:
    return subject("a", devices=(GPU._replace(**changes), *GPUS[1:]))


def test_healthy_and_alike() -> None:
    assert found(*alike("a", "b", devices=GPUS), subject("c")) == []


def test_another_model() -> None:
    other = subject("c", devices=(GPU._replace(name="A100"),), slots=(0,))
    nodes = alike("a", "b", devices=GPUS, slots=(0, 1))
    assert found(*nodes, other) == [("device-model", "c", "devices: A100, but H100 on a, b")]


def test_a_device_that_is_missing_where_all_are_used() -> None:
    nodes = alike("a", "b", devices=GPUS)
    assert found(*nodes, subject("c", devices=(GPU,))) == [
        ("device-count", "c", "devices: 1, but 2 on a, b")
    ]
    assert found(*nodes, subject("c", devices=(GPU,), slots=(0,))) == []
    assert found(*nodes, subject("c", devices=(*GPUS, GPU._replace(id="2")))) == []


def test_what_the_driver_reports() -> None:
    assert found(own(problems=("3 uncorrectable errors",))) == [
        ("device-problem", "a", "device 0: 3 uncorrectable errors")
    ]


def test_processes_of_others() -> None:
    busy = tuple(one._replace(users=("pid 12 (alice)",), free=GIB) for one in GPUS)
    assert found(subject("a", devices=busy)) == [
        ("device-users", "a", "devices 0, 1 in use by pid 12 (alice)")
    ]


def test_memory_that_nobody_seems_to_use() -> None:
    assert found(own(free=63 * GIB)) == [("device-memory", "a", "device 0 with only 63 GiB free")]
    assert found(own(free=65 * GIB)) == []
    assert found(own(free=0, total=0)) == []


def test_devices_that_the_job_does_not_use() -> None:
    busy = (GPU._replace(users=("pid 12 (alice)",)), GPUS[1])
    assert found(subject("a", devices=busy, slots=(1,))) == []
    assert len(found(subject("a", devices=busy, slots=(0,)))) == 1
    masked = (GPU._replace(id="1", users=("x",)), GPU)
    assert found(subject("a", devices=masked, slots=(1,))) == []
    named = (GPU._replace(id="GPU-1", users=("x",)), GPUS[1])
    assert len(found(subject("a", devices=named, slots=("GPU-1",)))) == 1
    assert len(found(subject("a", devices=named, slots=(0,)))) == 1
