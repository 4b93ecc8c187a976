"""Moore Threads' GPUs."""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="musa",
    title="Moore Threads GPUs",
    comm_backend="mccl",
    visible_env=("MUSA_VISIBLE_DEVICES",),
    device_files=(Files("dev/mtgpu.[0-9]*"), Files("dev/mtgpu[0-9]*")),
    pci=((0x1ED5, (0x03, 0x12)),),
    env_prefixes=("MUSA_", "MCCL_", "MUDNN_", "MUBLAS_", "MTGPU_"),
)
