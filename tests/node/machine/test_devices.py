"""A node's devices: where they are, and which slots mean them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dsrun.accelerator.vendors import VENDORS
from dsrun.launcher.node.machine.devices import NONE, NodeDevices

from ...support.vendor_machines import (
    ADDRESSES,
    DISPLAY,
    Machine,
    built,
    machine,
)

__all__ = ["machine"]


def test_a_node_knows_the_numa_node_of_its_devices(machine: Machine) -> None:
    devices = NodeDevices({}, {}, built(machine, "rocm"))
    assert devices.addresses(devices.visible) == ADDRESSES["rocm"]
    assert devices.nodes_of(["1", "0", "7"]) == {"1": 0, "0": 1, "7": None}
    assert devices.nodes_of(["0"]) == {"0": 1}


def test_firmware_that_does_not_say_leaves_the_numa_node_unknown(machine: Machine) -> None:
    machine.drm(128, machine.pci("0000:3a:00.0", 0x8086, DISPLAY))
    assert NodeDevices({}, {}, str(machine.root)).nodes_of(["0"]) == {"0": None}


SHORT: list[tuple[str, Mapping[str, str], int, str]] = [
    ("cuda", {}, 3, "no slot 2 (visible: slots 0-1); NVIDIA GPUs here: 2, workers: 3"),
    (
        "cuda",
        {"CUDA_VISIBLE_DEVICES": "1"},
        2,
        "no slot 1 (visible: slot 0 = 1), limited by CUDA_VISIBLE_DEVICES=1"
        "; NVIDIA GPUs here: 1, workers: 2",
    ),
    (
        "rocm",
        {"HIP_VISIBLE_DEVICES": "0,1", "ROCR_VISIBLE_DEVICES": "1"},
        2,
        "no slot 1 (visible: slot 0), limited by HIP_VISIBLE_DEVICES=0,1 and ROCR_VISIBLE_DEVICES=1"
        "; AMD GPUs here: 1, workers: 2",
    ),
    (
        "cpu",
        {"DSRUN_ACCELERATOR": "npu"},
        1,
        f"no Ascend NPUs here{NONE}",
    ),
    (
        "cuda",
        {"CUDA_VISIBLE_DEVICES": ""},
        1,
        f"no NVIDIA GPUs here, limited by CUDA_VISIBLE_DEVICES={NONE}",
    ),
    (
        "cpu",
        {"DSRUN_ACCELERATOR": "mps"},
        2,
        "no slot 1 (visible: slot 0); Apple GPUs here: 1, workers: 2",
    ),
]


@pytest.mark.parametrize(("name", "environ", "workers", "text"), SHORT)
def test_too_many_workers_are_refused_with_counts_and_masks(
    machine: Machine, name: str, environ: Mapping[str, str], workers: int, text: str
) -> None:
    devices = NodeDevices(environ, {}, built(machine, name))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        devices.entries(range(workers))
    assert str(caught.value) == text


def test_a_wrong_slot_among_enough_is_no_matter_of_counts(machine: Machine) -> None:
    devices = NodeDevices({}, {}, built(machine, "cuda"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        devices.entries([7])
    assert str(caught.value) == "no slot 7 (visible: slots 0-1)"


def test_a_slot_may_mean_several_devices_or_none(machine: Machine) -> None:
    devices = NodeDevices({"CUDA_VISIBLE_DEVICES": "4,5,7"}, {}, built(machine, "cuda"))
    assert devices.entries(["0+2", "none", 1]) == (("4", "7"), (), ("5",))
    assert devices.mask(("4", "7")) == {"CUDA_VISIBLE_DEVICES": "4,7"}
    assert devices.mask(()) == {"CUDA_VISIBLE_DEVICES": "-1"}
    with pytest.raises(ValueError, match="slots 2 and 2 are the same device"):
        devices.entries(["0+2", "2+1"])


def test_too_few_devices_for_workers_with_several(machine: Machine) -> None:
    devices = NodeDevices({}, {}, built(machine, "cuda"))
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the whole text is compared)
        devices.entries(["0+1", "2+3"])
    assert str(caught.value) == (
        "no slot 2, 3 (visible: slots 0-1); NVIDIA GPUs here: 2, workers: 2 with 4 devices"
    )


def test_slots_on_processors_are_only_a_count(machine: Machine) -> None:
    devices = NodeDevices({}, {}, built(machine, "cpu"))
    assert devices.entries(range(9)) == ()
    assert devices.mask(()) == {}


@pytest.mark.parametrize("name", VENDORS)
def test_only_a_tpu_must_be_alone_with_its_worker(name: str) -> None:
    assert NodeDevices({"DSRUN_ACCELERATOR": name}, {}).alone is (name == "tpu")
