"""Intel's Gaudi accelerators.

A process uses HABANA_VISIBLE_MODULES, whose entries are module ids, not the numbers of device
files; HABANA_VISIBLE_DEVICES is for the container's runtime (Gaudi documentation, "Multiple
Workloads on a Single Docker").
"""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="hpu",
    title="Gaudi accelerators",
    comm_backend="hccl",
    visible_env=("HABANA_VISIBLE_MODULES",),
    device_files=(
        Files("dev/accel/accel[0-9]*", device="sys/class/accel/accel[0-9]*/device"),
        Files("dev/hl[0-9]*", device="sys/class/habanalabs/hl[0-9]*/device"),
    ),
    pci=((0x1DA3, (0x12,)),),
    numbered_by="module_id",
    env_prefixes=("PT_HPU_", "PT_", "HABANA_", "HCCL_", "HLS_", "HL_", "GC_KERNEL_PATH"),
)
