"""Intel's discrete GPUs. The processor's integrated GPU, always at 00:02, is not counted.

A device of Level Zero is a tile, unless ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE (Level Zero,
"Programming guide: Environment variables"). The driver xe shows tiles as `tile0`, i915 as `gt0`.
"""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="xpu",
    title="Intel GPUs",
    comm_backend="xccl",
    visible_env=("ZE_AFFINITY_MASK",),
    device_files=(Files("dev/dri/renderD[0-9]*", device="sys/class/drm/renderD[0-9]*/device"),),
    pci=((0x8086, (0x03, 0x12)),),
    not_at=("0000:00:02.",),
    parts=("tile[0-9]*", "drm/card[0-9]*/gt/gt[0-9]*"),
    joined={"ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE": 0},
    env_prefixes=("ZE_", "ZES_", "SYCL_", "UR_", "ONEAPI_DEVICE_SELECTOR", "CCL_", "IPEX_", "IGC_"),
)
