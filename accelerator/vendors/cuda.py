"""NVIDIA GPUs."""

from .base import Accelerator, Files

ACCELERATOR = Accelerator(
    name="cuda",
    title="NVIDIA GPUs",
    comm_backend="nccl",
    visible_env=("CUDA_VISIBLE_DEVICES",),
    device_files=(Files("dev/nvidia[0-9]*"),),
    information="proc/driver/nvidia/gpus",
    env_prefixes=("CUDA_", "NCCL_", "CUBLAS_", "CUDNN_", "NVSHMEM_", "NVIDIA_TF32_OVERRIDE"),
)
