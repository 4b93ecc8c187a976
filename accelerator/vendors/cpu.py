"""No devices: any number of slots, and nothing to hide from a process."""

from .base import Accelerator

ACCELERATOR = Accelerator(
    name="cpu",
    title="processors",
    comm_backend="gloo",
    env_prefixes=("GLOO_", "CCL_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_"),
)
