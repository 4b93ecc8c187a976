"""The made-up device, as torch.cuda has it."""

from __future__ import annotations

import time
from types import SimpleNamespace

import made_up

from . import nccl as nccl

spins = False
STUCK = made_up.HELD / "stuck"


def init() -> None:
    if made_up.fault("driver"):
        raise RuntimeError("Found no NVIDIA driver on your system.")


def device_count() -> int:
    return len(made_up.visible()) + int(made_up.fault("count"))


def use(device: str) -> None:
    kind, _, number = device.partition(":")
    if kind == "cuda" and not made_up.visible():
        raise RuntimeError("No CUDA GPUs are available")
    if kind == "cuda" and int(number or 0) >= device_count():
        raise RuntimeError("CUDA error: invalid device ordinal")
    if kind == "cuda" and made_up.fault("stuck") and STUCK.exists():
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable")


def set_device(index: int) -> None:
    use(f"cuda:{index}")


def get_device_properties(_: int) -> SimpleNamespace:
    use("cuda")
    return SimpleNamespace(
        name=made_up.NAME,
        total_memory=made_up.TOTAL,
        uuid=made_up.UUID,
        pci_domain_id=0,
        pci_bus_id=0,
        pci_device_id=5 if made_up.fault("place") else 3,
    )


def compute() -> None:
    end = time.monotonic() + 0.01
    while time.monotonic() < end:
        pass


def _sleep(_: int) -> None:
    globals()["spins"] = True
    if made_up.fault("stuck"):
        STUCK.touch()


def synchronize() -> None:
    while spins:  # in this function alone, as it is in CUDA
        pass
