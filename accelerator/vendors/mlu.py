"""Cambricon's accelerators."""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="mlu",
    title="Cambricon MLUs",
    comm_backend="cncl",
    visible_env=("MLU_VISIBLE_DEVICES",),
    device_files=(Files("dev/cambricon_dev[0-9]*"),),
    pci=((0xCABC, (0x03, 0x12)),),
    env_prefixes=("MLU_", "CNCL_", "CNNL_", "CNRT_", "CN_", "NEUWARE_HOME"),
)
