"""The surroundings of `make gpu`: facts of the machine that may explain the results."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_MODULE_LOADING",
)


def devices(root: str = "/") -> list[str]:
    """Return the device files of NVIDIA GPUs, in the order of their numbers."""
    found = [one.name for one in Path(root, "dev").glob("nvidia[0-9]*")]
    return sorted(found, key=lambda name: (len(name), name))


def kernel(version: str) -> str:
    """Return the kernel from the text of /proc/version, in which gVisor shows an old Linux."""
    return f"{version.strip()}{' (gVisor)' if 'gvisor' in version.lower() else ''}"


def has_pidfd() -> bool:
    """Return whether the kernel has pidfds, with which dsrun sends signals."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # Python, or the kernel, has none
        return False
    return True


def of_machine(environ: Mapping[str, str], look: Mapping[str, Any]) -> dict[str, Any]:
    """Return the surroundings, in the order in which they are shown."""
    torch, nvml = look["torch"] or {}, look["nvml"] or [{}]
    first = (torch.get("devices") or [{}])[0]
    packages = look["packages"]
    return {
        "gpu": first.get("name", "none usable by torch"),
        "driver": nvml[0].get("driver") or ((look["proc"] or [{}])[0].get("driver") or "unknown"),
        "torch": f"{torch.get('version', 'none')}, NCCL {torch.get('nccl') or 'none'}",
        "python": f"{platform.python_version()} at {sys.executable}",
        "kernel": kernel(Path("/proc/version").read_text()),
        "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        "pidfd": "works" if has_pidfd() else "does not work",
        "cpus": len(os.sched_getaffinity(0)),
        "device files": " ".join(devices()),
        "variables": " ".join(f"{one}={environ[one]}" for one in VARIABLES if one in environ),
        "packages": " ".join(f"{name}={version}" for name, version in packages.items() if version),
        "not installed": " ".join(name for name, version in packages.items() if not version),
        "problems": "; ".join(f"{who}: {what}" for who, what in look["errors"].items()),
    }
