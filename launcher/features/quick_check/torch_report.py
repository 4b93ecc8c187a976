"""Prints the self-description of torch and DeepSpeed, as one line of JSON.

The workers' Python runs this file, so it imports nothing of dsrun.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

TORCH = {
    "torch.version": "__version__",
    "torch.path": "__path__",
    "torch.debug": "version.debug",
    "torch.cuda": "version.cuda",
    "torch.hip": "version.hip",
    "torch.threads": "get_num_threads",
    "torch.gloo": "distributed.is_gloo_available",
    "torch.nccl": "distributed.is_nccl_available",
    "torch.mpi": "distributed.is_mpi_available",
    "cuda.available": "cuda.is_available",
}
"""Facts about torch, by their names in the report."""

WITH_CUDA = {
    "cuda.devices": "cuda.device_count",
    "cuda.device": "cuda.get_device_name",
    "cuda.architectures": "cuda.get_arch_list",
    "cuda.nccl": "cuda.nccl.version",
    "cuda.cudnn": "backends.cudnn.version",
}
"""Further facts if there are devices; otherwise these questions could fail."""

DEEPSPEED = {
    "deepspeed.version": "__version__",
    "deepspeed.path": "__path__",
    "deepspeed.torch": "git_version_info.torch_info",
}


def _ask(module: Any, path: str) -> str:
    """Return an attribute of a module, or a function's result, as text; on failure, the reason."""
    try:
        for name in path.split("."):
            module = getattr(module, name)
        found = module() if callable(module) else module
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    if isinstance(found, (tuple, list)):
        return " ".join(map(str, found))
    return "" if found is None else str(found)


def _asked(module: Any, questions: dict[str, str]) -> dict[str, str]:
    return {name: _ask(module, path) for name, path in questions.items()}


def torch_facts(torch: Any) -> dict[str, str]:
    """Return torch's facts."""
    found = _asked(torch, TORCH)
    return found | _asked(torch, WITH_CUDA) if found["cuda.available"] == "True" else found


def deepspeed_facts(deepspeed: Any) -> dict[str, str]:
    """Return DeepSpeed's facts, and the state of its operators: installed, compatible."""
    from importlib import import_module

    installed = getattr(import_module("deepspeed.git_version_info"), "installed_ops", {})
    found = _asked(deepspeed, DEEPSPEED)
    builders: Any = import_module("deepspeed.ops.op_builder.all_ops").ALL_OPS
    for name, builder in sorted(builders.items()):
        compatible = _ask(builder, "is_compatible") == "True"
        states = ["installed"] * bool(installed.get(name)) + ["compatible"] * compatible
        found[f"deepspeed.op.{name}"] = "-".join(states) or "incompatible"
    return found


def main() -> None:
    """Print the line; output of modules goes to standard error."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    sys.path.pop(0)  # the folder of this file
    found: dict[str, str] = {}
    for name, facts in (("torch", torch_facts), ("deepspeed", deepspeed_facts)):
        try:
            module = __import__(name)
        except ModuleNotFoundError:
            found[f"{name}.version"] = "none"
            continue
        except BaseException as error:
            found[f"{name}.import"] = f"{type(error).__name__}: {error}"
            continue
        try:
            found |= facts(module)
        except Exception as error:
            found[f"{name}.node_report"] = f"{type(error).__name__}: {error}"
    with open(stdout, "w", encoding="utf-8") as out:
        out.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
