"""What each worker gets besides its cores: a device, its place, and the nearest NIC."""

from __future__ import annotations

import pytest

from dsrun.launcher.node.machine.devices import NodeDevices
from dsrun.launcher.node.workers.devices import WorkerDevices
from dsrun.launcher.specs.host import Slot
from dsrun.launcher.specs.policies import BindingPolicy

from ...support.vendor_machines import ADDRESSES, Machine, built, machine

__all__ = ["machine"]

BOUND, REPORTED = BindingPolicy("core"), BindingPolicy("none", report=True)


def of(machine: Machine, name: str, policy: BindingPolicy, *slots: Slot) -> WorkerDevices:
    return WorkerDevices(NodeDevices({}, {}, built(machine, name)), slots, policy)


def test_each_worker_has_the_device_of_its_slot(machine: Machine) -> None:
    found = of(machine, "rocm", BOUND, 1, 0)
    assert (found.devices, found.numa_nodes) == (True, [0, 1])
    bound = found.bound({0: 100, 1: 101}, 6)
    assert bound.accelerator == "rocm"
    assert [(one.rank, one.pid, one.device, one.node) for one in bound.workers] == [
        (6, 100, "1", 0),
        (7, 101, "0", 1),
    ]
    assert [one.address for one in bound.workers] == [ADDRESSES["rocm"][name] for name in "10"]


def test_a_worker_may_have_several_devices_or_none(machine: Machine) -> None:
    found = of(machine, "rocm", BOUND, "1+0", "none")
    assert (found.devices, found.numa_nodes) == (True, [None, None])
    one, none = found.bound({0: 100, 1: 101}, 6).workers
    assert (one.device, one.node, none.device, none.address) == ("1,0", None, "", "")
    assert one.address == ",".join(ADDRESSES["rocm"][name] for name in "10")


def test_workers_without_a_device_are_not_near_one(machine: Machine) -> None:
    found = of(machine, "rocm", BOUND, "none", "none")
    assert (found.devices, found.numa_nodes) == (False, [None, None])


def test_nothing_is_looked_up_that_nobody_asks_for(machine: Machine) -> None:
    found = of(machine, "rocm", BindingPolicy("none"), 0, 1)
    assert (found.devices, found.numa_nodes) == (True, [None, None])
    assert [one.address for one in found.bound({0: 1, 1: 2}, 0).workers] == ["", ""]


def test_a_report_is_reason_enough(machine: Machine) -> None:
    assert of(machine, "rocm", REPORTED, 0).numa_nodes == [1]


def test_workers_on_processors_have_none(machine: Machine) -> None:
    found = of(machine, "cpu", BOUND, 0, 1)
    assert (found.devices, found.numa_nodes) == (False, [None, None])
    assert found.variables(0, {}) == {}
    (one,) = found.bound({1: 9}, 4).workers
    assert (one.rank, one.pid, one.device, one.address, one.node, one.nic) == (
        5,
        9,
        "",
        "",
        None,
        "",
    )


def test_a_slot_that_is_no_device_is_refused(machine: Machine) -> None:
    with pytest.raises(ValueError, match="no slot 7"):
        of(machine, "rocm", BOUND, 7)
