"""No devices: as many slots as asked for, and nothing to hide from a process."""

from .base import Accelerator

ACCELERATOR = Accelerator(
    name="cpu",
    visible_env=None,
    device_files=(),
    env_prefixes=("GLOO_", "CCL_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_"),
    comm_backend="gloo",
)
