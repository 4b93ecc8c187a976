"""NVIDIA GPUs."""

from .base import Accelerator

ACCELERATOR = Accelerator(
    name="cuda",
    visible_env="CUDA_VISIBLE_DEVICES",
    device_files=("dev/nvidia[0-9]*",),
    env_prefixes=("CUDA_", "NCCL_", "CUBLAS_", "CUDNN_", "NVSHMEM_", "NVIDIA_TF32_OVERRIDE"),
    comm_backend="nccl",
)
