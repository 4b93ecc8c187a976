"""Google's TPUs.

Without a mask, torch_xla gives each worker the chip at LOCAL_RANK; with one, it uses the mask.
TPU_VISIBLE_DEVICES is the older name.
"""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="tpu",
    title="TPU chips",
    comm_backend="xla",
    torch_device="xla",
    visible_env=("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"),
    alone=True,
    device_files=(
        Files("dev/accel[0-9]*", device="sys/class/accel/accel[0-9]*/device"),
        Files("dev/vfio/[0-9]*", device="sys/kernel/iommu_groups/[0-9]*/devices"),
    ),
    pci=((0x1AE0, (0x00, 0x08, 0x12, 0xFF)),),
    env_prefixes=("LIBTPU_", "PJRT_", "XLA_"),
)
