"""NVIDIA GPUs as their driver lists them in /proc.

Source: nv-procfs.c of NVIDIA's open-gpu-kernel-modules.
"""

from __future__ import annotations

from . import pci, sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def gpus(folder: str) -> list[tuple[str, dict[str, str]]]:
    """Return every GPU's PCI address and its `Name: value` lines, in order of address.

    Args:
        folder: the path of `/proc/driver/nvidia/gpus`.
    """
    read = ((pci.normal(one), _facts(f"{folder}/{one}/information")) for one in sysfs.names(folder))
    return sorted(read, key=lambda pair: pair[0])


def is_excluded(facts: Mapping[str, str]) -> bool:
    """Return whether the driver hides a GPU from CUDA and NVML (NVreg_ExcludedGpus)."""
    return facts.get("GPU Excluded") == "Yes"


def _facts(path: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in sysfs.text(path).splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
