"""Tecorigin's accelerators."""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="sdaa",
    title="Tecorigin accelerators",
    comm_backend="tccl",
    visible_env=("SDAA_VISIBLE_DEVICES",),
    device_files=(Files("dev/tcaicard[0-9]*"),),
    env_prefixes=("SDAA_", "TCCL_", "TECO_"),
)
