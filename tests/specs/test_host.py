"""Slots: which devices a worker has."""

from __future__ import annotations

import pytest

from dsrun.launcher.specs.host import NO_DEVICE, Slot, all_devices, devices_of, slot_of


@pytest.mark.parametrize(
    ("devices", "slot"),
    [
        ((3,), 3),
        (("GPU-8932f937",), "GPU-8932f937"),
        ((4, 5, 6, 7), "4+5+6+7"),
        (("MIG-4cf1", "MIG-77/1/0"), "MIG-4cf1+MIG-77/1/0"),
        ((), NO_DEVICE),
    ],
)
def test_a_slot_means_the_devices_it_is_made_of(devices: tuple[Slot, ...], slot: Slot) -> None:
    assert slot_of(devices) == slot
    assert devices_of(slot) == devices


def test_the_devices_of_several_workers() -> None:
    assert all_devices(("0+1", NO_DEVICE, 4, "2+3")) == (0, 1, 4, 2, 3)
