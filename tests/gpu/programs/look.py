"""Print, as one line of JSON, what torch, NVML by way of dsrun, and the driver tell of the GPUs.

Whatever cannot be told is left out, and `errors` says why.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from importlib import metadata, util
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

CHECKOUT = Path(__file__).resolve().parents[3]
MODULES = {
    "pynvml": "nvidia-ml-py",
    "rich": "rich",
    "paramiko": "paramiko",
    "cloudpickle": "cloudpickle",
    "psutil": "psutil",
    "pathspec": "pathspec",
}
"""What dsrun imports where it is needed, and the package that has it."""


def main() -> None:
    """Print it."""
    errors: dict[str, str] = {}
    told = {
        name: _asked(name, question, errors)
        for name, question in (("torch", _torch), ("nvml", _nvml), ("proc", _proc))
    }
    print(json.dumps({**told, "packages": _packages(), "errors": errors}))


def _asked(name: str, question: Callable[[], Any], errors: dict[str, str]) -> Any:
    """Return an answer; one that fails must not hide the others."""
    try:
        return question()
    except Exception as error:
        errors[name] = f"{type(error).__name__}: {error}".strip()
        return None


def _torch() -> dict[str, Any]:
    import torch

    # This says why, where there is no device that it can use.
    torch.cuda.init()  # type: ignore[no-untyped-call]
    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "nccl": _nccl(torch),
        "sum": torch.ones(4, device="cuda").sum().item(),
        "devices": [_device(torch, at) for at in range(torch.cuda.device_count())],
    }


def _nccl(torch: Any) -> str:
    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except Exception:
        return ""


def _device(torch: Any, at: int) -> dict[str, Any]:
    """Return the properties of a device; those of older versions of torch lack UUID and address."""
    known = torch.cuda.get_device_properties(at)
    place = [getattr(known, f"pci_{part}_id", -1) for part in ("domain", "bus", "device")]
    return {
        "name": known.name,
        "total": known.total_memory,
        "uuid": f"GPU-{known.uuid}" if hasattr(known, "uuid") else "",
        "address": "" if -1 in place else "{:04x}:{:02x}:{:02x}.0".format(*place),
    }


def _nvml() -> list[dict[str, Any]]:
    nvml = _of_dsrun()
    found = nvml.read()
    if not found:
        import pynvml

        pynvml.nvmlInit()
    return [_fields(one) for one in found]


def _proc() -> list[dict[str, Any]]:
    return [_fields(one) for one in _of_dsrun().from_proc()]


def _of_dsrun() -> Any:
    sys.path.insert(0, str(CHECKOUT / "tests" / "import"))
    from dsrun.accelerator.hardware import nvml

    return nvml


def _fields(gpu: Any) -> dict[str, Any]:
    """Return the fields of a GPU as JSON can have them."""
    known = dict(vars(gpu))
    known["processes"] = [one.pid for one in gpu.processes]
    known["rows"] = gpu.rows and vars(gpu.rows)
    known["migs"] = [one.uuid for one in gpu.migs]
    return known


def _packages() -> dict[str, str]:
    """Return the version of each, "?" if only the module is known, "" if it is not installed."""
    found = {}
    for module, package in MODULES.items():
        try:
            found[module] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[module] = "?" if util.find_spec(module) else ""
    beside = Path(sys.executable).parent
    program = shutil.which("py-spy", path=f"{beside}:{os.environ.get('PATH', '')}")
    return {**found, "py_spy": program or ""}


if __name__ == "__main__":
    main()
