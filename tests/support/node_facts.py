"""The facts of healthy nodes, and nodes that are compared."""

from __future__ import annotations

from typing import Any

from dsrun.launcher.control.facts import DeviceFacts, Facts, Space
from dsrun.launcher.features.quick_check.runner_findings import ComparedNode

GIB = 1 << 30

USUAL = Facts(
    wall=1.7e9,
    python="3.11.2",
    python_path="/usr/bin/python3",
    versions={"torch": "2.4.0+cu121", "numpy": "1.26.4"},
    script="5c",
    files="f1",
    file_count=3,
    env={"NCCL_DEBUG": "INFO"},
    limits={"nofile": 1024, "memlock": 8 << 20, "nproc": 4096, "stack": 8 << 20},
    memory=64 * GIB,
    cgroup_memory=0,
    cpus=8.0,
    mtus={"eth0": 1500},
    spaces=(
        Space("work", "/work", 100 * GIB, 50 * GIB, 10**6, True),
        Space("tmp", "/tmp", 10 * GIB, 9 * GIB, 10**6, True),
        Space("shm", "/dev/shm", 32 * GIB, 32 * GIB, 10**6, True),
    ),
)
"""The facts of a healthy node without devices."""

GPU = DeviceFacts("0", "H100", 80 * GIB, 79 * GIB, (), ())
GPUS = (GPU, GPU._replace(id="1"))


def facts(**changes: Any) -> Facts:
    """Return the facts of a healthy node, but for these."""
    return USUAL._replace(**changes)


def compared_node(name: str, **changes: Any) -> ComparedNode:
    """Return a node; changes of its facts, or of what else is known of it."""
    own = {key: changes.pop(key) for key in ComparedNode._fields if key in changes}
    return ComparedNode(name, facts(**changes), workers=2)._replace(**own)


def alike(*names: str, **changes: Any) -> list[ComparedNode]:
    """Return nodes with the same facts."""
    return [compared_node(name, **changes) for name in names]
