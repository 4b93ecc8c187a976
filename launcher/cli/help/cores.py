"""The help of the options about devices, cores and memory."""

from __future__ import annotations

from .description import Description


def _accelerators() -> tuple[str, ...]:
    from ....accelerator.vendors import VENDORS

    return tuple(VENDORS)


def _accelerator() -> str:
    from ...common.wording import either

    return f"Kind of devices to use: {either(_accelerators())}."


OPTIONS = {
    "accelerator": Description(
        _accelerator,
        default="DSRUN_ACCELERATOR or DS_ACCELERATOR if set, else the devices of each node",
        values=_accelerators,
    ),
    "bind_cores_to_rank": Description(
        "Bind each rank to cores of its own near its device. Same as --bind_to core."
    ),
    "bind_core_list": Description(
        "Bind ranks to cores among these CPUs only: 0,2-5, or by host, n1:0-3@n2:4-7.",
        default="all CPUs that dsrun may use",
    ),
    "bind_to": Description(
        "Bind each rank to cores of its own (core), to the NUMA node of its device (numa) or to"
        " the socket of its device (socket).",
        default="none",
    ),
    "numa_binding": Description(
        "torchrun's option: bind each rank to the NUMA node or the socket of its device, to cores"
        " of its own within the node (exclusive), or to cores with a common cache (core-complex).",
        default="none",
    ),
    "bind_smt": Description(
        "Use all hardware threads of a core (yes), or only its first (no). For bound ranks."
    ),
    "bind_memory": Description(
        "Where bound ranks allocate memory: on the NUMA nodes of their cores only (bind), there"
        " first (preferred), there in turn (interleave), anywhere (none), or bind with the node's"
        " faster memory first if it has some (auto)."
    ),
    "bind_nic": Description(
        "Set NCCL_IB_HCA and UCX_NET_DEVICES to the InfiniBand and RoCE ports near each device."
    ),
    "report_bindings": Description(
        "Print the CPUs and the memory that each rank is bound to, as reported by the kernel. No"
        " effect with --quiet."
    ),
}
