"""Clocks, limits, memory and variables."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check import runner_settings as settings
from dsrun.launcher.features.quick_check.runner_findings import ComparedNode

from ...support.node_facts import GIB, GPUS, alike, compared_node


def clocks(*ahead: tuple[float, float] | None) -> list[tuple[str, str]]:
    nodes = [compared_node(f"n{at}", ahead=one) for at, one in enumerate(ahead)]
    return [(one.nodes[0], one.text) for one in settings.check_clocks(nodes)]


def limits(*nodes: ComparedNode) -> list[tuple[str, str, str]]:
    return [(one.code, one.nodes[0], one.text) for one in settings.check_limits(nodes)]


def test_a_clock_is_off_only_beyond_what_is_not_known() -> None:
    assert clocks((-0.1, 0.1), (-0.1, 0.9), (0.9, 5.0), (-3.0, 0.0)) == []
    assert clocks((0.0, 0.1), (0.0, 0.1), (3.0, 3.4)) == [
        ("n2", "the clock is 3.2 s ahead of the others")
    ]
    assert clocks((0.0, 0.1), (-7300.0, -7200.0)) == [
        ("n1", "the clock is 2.0 h behind the others")
    ]


def test_if_most_nodes_agree_this_machine_is_the_one_that_is_off() -> None:
    assert clocks((9.0, 9.1), (9.0, 9.1), (9.2, 9.4)) == []
    assert clocks((9.0, 9.1), (9.0, 9.1), (0.0, 0.1)) == [
        ("n2", "the clock is 9.0 s behind the others")
    ]


def test_one_clock_is_not_compared() -> None:
    assert clocks((9.0, 9.1)) == clocks((9.0, 9.1), None) == clocks() == []


@pytest.mark.parametrize("limit", [1024, 4096, 1 << 20, -1])
def test_the_usual_limits_are_no_finding(limit: int) -> None:
    assert limits(*alike("a", "b", limits={"nofile": limit, "nproc": limit})) == []
    assert limits(*alike("a", "b", limits={})) == []


def test_limits_that_are_too_low_for_any_job() -> None:
    (one, other) = limits(compared_node("a", limits={"nofile": 256, "nproc": 100}))
    assert one == ("nofile", "a", "the limit of open files is 256")
    assert other == ("nproc", "a", "the limit of processes is 100")


def test_limits_that_others_do_not_have() -> None:
    usual = alike("a", "b", limits={"nofile": 1 << 20})
    assert limits(*usual, compared_node("c", limits={"nofile": 1024})) == [
        ("nofile", "c", "the limit of open files is 1,024, but 1,048,576 on most nodes")
    ]
    assert limits(*usual, compared_node("c", limits={"nofile": 4096})) == []
    unlimited = alike("a", "b", limits={"nofile": -1})
    assert limits(*unlimited, compared_node("c", limits={"nofile": 1024})) == [
        ("nofile", "c", "the limit of open files is 1,024, but none on most nodes")
    ]


def test_locked_memory_matters_where_there_are_devices() -> None:
    low, high = {"memlock": 8 << 20}, {"memlock": -1}
    with_devices = [*alike("a", "b", limits=high, devices=GPUS)]
    assert limits(*with_devices, compared_node("c", limits=low, devices=GPUS)) == [
        ("memlock", "c", "the limit of locked memory is 8 MiB, but none on most nodes")
    ]
    assert limits(*with_devices, compared_node("c", limits=low)) == []
    assert limits(*alike("a", "b", limits=low, devices=GPUS)) == []


def shares(*nodes: ComparedNode) -> list[tuple[str, str, str]]:
    return [(one.code, one.nodes[0], one.text) for one in settings.check_shares(nodes)]


def test_a_node_with_much_less_than_others() -> None:
    usual = alike("a", "b")
    assert shares(*usual, compared_node("c", memory=40 * GIB, cpus=5.0)) == []
    assert shares(*usual, compared_node("c", memory=16 * GIB)) == [
        ("memory", "c", "16 GiB of memory, but 64 GiB on most nodes")
    ]
    assert shares(*usual, compared_node("c", cgroup_memory=4 * GIB)) == [
        ("memory", "c", "4 GiB of memory, but 64 GiB on most nodes")
    ]
    assert shares(*usual, compared_node("c", cpus=1.5)) == [
        ("cpus", "c", "1.5 CPUs, but 8 on most nodes")
    ]


def test_half_of_the_cpus_is_much_less() -> None:
    one, two = compared_node("a", cpus=1.0), compared_node("b", cpus=2.0)
    assert shares(one, two) == shares(two, one) == [("cpus", "a", "1 CPU, but 2 on most nodes")]
    assert shares(compared_node("a", cpus=3.0), compared_node("b", cpus=4.0)) == []


def mtus(*nodes: ComparedNode) -> list[tuple[tuple[str, ...], str]]:
    return [(one.nodes, one.text) for one in settings.check_mtus(nodes)]


def test_interfaces_of_the_same_name_have_the_same_mtu() -> None:
    usual = alike("a", "b", mtus={"eth0": 1500, "ib0": 4092})
    odd = compared_node("c", mtus={"eth0": 1300, "ib0": 4092, "ens3": 9000, "docker0": 1500})
    other = compared_node("d", mtus={"docker0": 1400})
    assert mtus(*usual, odd, other) == [(("c",), "the MTU of eth0 is 1300, but 1500 on a, b")]


def test_a_limit_that_is_too_small_for_the_workers() -> None:
    assert shares(compared_node("a", cgroup_memory=GIB)) == []
    assert shares(compared_node("a", cgroup_memory=GIB // 4)) == [
        ("memory", "a", "the cgroup's memory limit leaves 128 MiB for each worker")
    ]
    assert shares(compared_node("a", cgroup_memory=GIB // 4, workers=0)) == []


def test_memory_that_is_not_known_is_not_compared() -> None:
    assert (
        shares(compared_node("a", memory=0), compared_node("b", memory=0), compared_node("c")) == []
    )


def variables(*nodes: ComparedNode) -> list[tuple[tuple[str, ...], str]]:
    return [(one.nodes, one.text) for one in settings.check_variables(nodes)]


def test_variables_with_another_value() -> None:
    other = compared_node("c", env={"NCCL_DEBUG": "WARN", "LD_LIBRARY_PATH": "/opt/lib"})
    assert variables(*alike("a", "b"), other) == [
        (
            ("c",),
            "LD_LIBRARY_PATH /opt/lib, but none on a, b; NCCL_DEBUG WARN, but INFO on a, b",
        )
    ]


@pytest.mark.parametrize(
    "name", ["NCCL_SOCKET_IFNAME", "CUDA_HOME", "TRITON_CACHE_DIR", "CUDA_VISIBLE_DEVICES"]
)
def test_what_may_differ_from_node_to_node(name: str) -> None:
    assert (
        variables(*alike("a", "b"), compared_node("c", env={"NCCL_DEBUG": "INFO", name: "1"})) == []
    )
