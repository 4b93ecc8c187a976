"""AMD GPUs, and other devices that are used through HIP.

The compute driver lists its nodes, including processors with gpu_id 0. It hides the gpu_id of a GPU
that the device cgroup forbids (Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c).

HIP reads HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, and counts the devices that
ROCR_VISIBLE_DEVICES leaves (ROCm, "HIP environment variables"; ROCclr, device/rocm/rocdevice.cpp).
GPU_DEVICE_ORDINAL is for OpenCL and is not used here.
"""

from .base import Accelerator, Files

_NODES = "sys/class/kfd/kfd/topology/nodes/[0-9]*"

ACCELERATOR = Accelerator(
    name="rocm",
    title="AMD GPUs",
    comm_backend="nccl",
    torch_device="cuda",
    visible_env=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    outer_env=("ROCR_VISIBLE_DEVICES",),
    device_files=(Files(_NODES, holds="gpu_id", device=f"{_NODES}/properties"),),
    env_prefixes=(
        *("HIP_", "HSA_", "ROCR_", "ROCM_", "AMD_", "AMDGPU_", "MIOPEN_", "HIPBLASLT_"),
        *("ROCBLAS_", "NCCL_", "RCCL_", "GPU_MAX_HW_QUEUES"),
    ),
)
