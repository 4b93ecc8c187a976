"""The launcher's facts about each vendor of devices: a table."""

from collections.abc import Mapping, Sequence

NUMBER = "[0-9]*"
"""Stands for the number of a device in a path."""


class Files:
    """Device files, one for each device.

    Attributes:
        path: their path below `/`, with NUMBER once: a number up to the end of the name, so that
            `nvidiactl` is not a device.
        holds: if they are folders, a file in each that must hold a number other than 0; the kernel
            hides the number of a device that this process may not use.
        device: the path that leads to a device's PCI function, with NUMBER for the number: a link
            to it, a folder that lists it, or a KFD node's `properties`.
    """

    def __init__(self, path: str, *, holds: str = "", device: str = "") -> None:
        self.path = path
        self.holds = holds
        self.device = device


class Accelerator:
    """One vendor's facts. Only `name`, `title` and `comm_backend` are required.

    Attributes:
        name: the name in options and variables, such as `cuda`.
        title: the name of the devices in messages, in the plural.
        torch_device: torch's name for the devices: `cuda` for AMD's GPUs as well.
        comm_backend: torch.distributed's backend for these devices.
        visible_env: the variables that limit which devices a process sees. All have one meaning:
            the first that is set is in effect, and a mask is written to all of them.
        outer_env: variables that limit and renumber the devices before `visible_env` is read.
            They are never written; the first that is set is in effect.
        ranges: whether a mask may have `0-3` for `0,1,2,3`.
        alone: whether a worker must see only its own device, because its library would use all.
        in_dev: prefixes of names in /dev; without a match, the machine has no such device.
        device_files: where devices are counted; the first Files with a match is used.
        pci: (vendor, base classes) of the devices' PCI functions. Files with another `device` do
            not count. If Files have no `device`, number n is the n-th such function.
        not_at: prefixes of PCI addresses that are never such devices.
        numbered_by: a file of a device with its number in masks; without one, masks count devices.
        parts: paths below a device, with NUMBER, that count the parts to which masks refer; the
            first with a match is used.
        joined: the number of parts that make one device if the environment has `VARIABLE=value`;
            0 for all parts.
        information: a folder with one folder for each PCI address, whose file `information` has
            minor number, UUID and model: NVIDIA's, below /proc.
        built_in: the number of devices that exist without a file.
        env_prefixes: prefixes of variables that a job needs on every node. Masks are excluded even
            if a prefix matches: what the runner may see does not apply to another node.
    """

    def __init__(
        self,
        *,
        name: str,
        title: str,
        comm_backend: str,
        torch_device: str | None = None,
        visible_env: tuple[str, ...] = (),
        outer_env: tuple[str, ...] = (),
        ranges: bool = False,
        alone: bool = False,
        in_dev: tuple[str, ...] = (),
        device_files: tuple[Files, ...] = (),
        pci: tuple[tuple[int, tuple[int, ...]], ...] = (),
        not_at: tuple[str, ...] = (),
        numbered_by: str = "",
        parts: tuple[str, ...] = (),
        joined: Mapping[str, int] | None = None,
        information: str = "",
        built_in: int = 0,
        env_prefixes: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.title = title
        self.comm_backend = comm_backend
        self.torch_device = torch_device or name
        self.visible_env = visible_env
        self.outer_env = outer_env
        self.ranges = ranges
        self.alone = alone
        self.in_dev = in_dev
        self.device_files = device_files
        self.pci = pci
        self.not_at = not_at
        self.numbered_by = numbered_by
        self.parts = parts
        self.joined = joined or {}
        self.information = information
        self.built_in = built_in
        self.env_prefixes = env_prefixes

    @property
    def has_devices(self) -> bool:
        """True if slots are devices, not only a number of workers."""
        return bool(self.device_files or self.built_in)


_NODES = "sys/class/kfd/kfd/topology/nodes/[0-9]*"

_ALL = (
    # NVIDIA GPUs.
    Accelerator(
        name="cuda",
        title="NVIDIA GPUs",
        comm_backend="nccl",
        visible_env=("CUDA_VISIBLE_DEVICES",),
        in_dev=("nvidia",),
        device_files=(Files("dev/nvidia[0-9]*"),),
        information="proc/driver/nvidia/gpus",
        env_prefixes=("CUDA_", "NCCL_", "CUBLAS_", "CUDNN_", "NVSHMEM_", "NVIDIA_TF32_OVERRIDE"),
    ),
    # AMD GPUs, and other devices that are used through HIP.
    #
    # The compute driver lists its nodes, including processors with gpu_id 0. It hides the gpu_id of
    # a GPU that the device cgroup forbids (Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c).
    #
    # HIP reads HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES, and counts the devices that
    # ROCR_VISIBLE_DEVICES leaves (ROCm, "HIP environment variables"; ROCclr,
    # device/rocm/rocdevice.cpp). GPU_DEVICE_ORDINAL is for OpenCL and is not used here.
    Accelerator(
        name="rocm",
        title="AMD GPUs",
        comm_backend="nccl",
        torch_device="cuda",
        visible_env=("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
        outer_env=("ROCR_VISIBLE_DEVICES",),
        in_dev=("kfd",),
        device_files=(Files(_NODES, holds="gpu_id", device=f"{_NODES}/properties"),),
        env_prefixes=(
            *("HIP_", "HSA_", "ROCR_", "ROCM_", "AMD_", "AMDGPU_", "MIOPEN_", "HIPBLASLT_"),
            *("ROCBLAS_", "NCCL_", "RCCL_", "GPU_MAX_HW_QUEUES"),
        ),
    ),
    # Intel's discrete GPUs. The processor's integrated GPU, always at 00:02, is not counted.
    #
    # A device of Level Zero is a tile, unless ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE (Level Zero,
    # "Programming guide: Environment variables"). The driver xe shows tiles as `tile0`, i915 as
    # `gt0`.
    Accelerator(
        name="xpu",
        title="Intel GPUs",
        comm_backend="xccl",
        visible_env=("ZE_AFFINITY_MASK",),
        in_dev=("dri",),
        device_files=(Files("dev/dri/renderD[0-9]*", device="sys/class/drm/renderD[0-9]*/device"),),
        pci=((0x8086, (0x03, 0x12)),),
        not_at=("0000:00:02.",),
        parts=("tile[0-9]*", "drm/card[0-9]*/gt/gt[0-9]*"),
        joined={"ZE_FLAT_DEVICE_HIERARCHY=COMPOSITE": 0},
        env_prefixes=(
            "ZE_",
            "ZES_",
            "SYCL_",
            "UR_",
            "ONEAPI_DEVICE_SELECTOR",
            "CCL_",
            "IPEX_",
            "IGC_",
        ),
    ),
    # Huawei's Ascend processors. Their numbers do not follow PCI addresses.
    Accelerator(
        name="npu",
        title="Ascend NPUs",
        comm_backend="hccl",
        visible_env=("ASCEND_RT_VISIBLE_DEVICES",),
        in_dev=("davinci",),
        device_files=(Files("dev/davinci[0-9]*"),),
        env_prefixes=("ASCEND_", "HCCL_", "ACL_", "NPU_", "TASK_QUEUE_ENABLE"),
    ),
    # Intel's Gaudi accelerators.
    #
    # A process uses HABANA_VISIBLE_MODULES, whose entries are module ids, not the numbers of device
    # files; HABANA_VISIBLE_DEVICES is for the container's runtime (Gaudi documentation, "Multiple
    # Workloads on a Single Docker").
    Accelerator(
        name="hpu",
        title="Gaudi accelerators",
        comm_backend="hccl",
        visible_env=("HABANA_VISIBLE_MODULES",),
        in_dev=("accel", "hl"),
        device_files=(
            Files("dev/accel/accel[0-9]*", device="sys/class/accel/accel[0-9]*/device"),
            Files("dev/hl[0-9]*", device="sys/class/habanalabs/hl[0-9]*/device"),
        ),
        pci=((0x1DA3, (0x12,)),),
        numbered_by="module_id",
        env_prefixes=("PT_HPU_", "PT_", "HABANA_", "HCCL_", "HLS_", "HL_", "GC_KERNEL_PATH"),
    ),
    # Cambricon's accelerators.
    Accelerator(
        name="mlu",
        title="Cambricon MLUs",
        comm_backend="cncl",
        visible_env=("MLU_VISIBLE_DEVICES",),
        in_dev=("cambricon_dev",),
        device_files=(Files("dev/cambricon_dev[0-9]*"),),
        pci=((0xCABC, (0x03, 0x12)),),
        env_prefixes=("MLU_", "CNCL_", "CNNL_", "CNRT_", "CN_", "NEUWARE_HOME"),
    ),
    # Moore Threads' GPUs.
    Accelerator(
        name="musa",
        title="Moore Threads GPUs",
        comm_backend="mccl",
        visible_env=("MUSA_VISIBLE_DEVICES",),
        in_dev=("mtgpu",),
        device_files=(Files("dev/mtgpu.[0-9]*"), Files("dev/mtgpu[0-9]*")),
        pci=((0x1ED5, (0x03, 0x12)),),
        env_prefixes=("MUSA_", "MCCL_", "MUDNN_", "MUBLAS_", "MTGPU_"),
    ),
    # Tecorigin's accelerators.
    Accelerator(
        name="sdaa",
        title="Tecorigin accelerators",
        comm_backend="tccl",
        visible_env=("SDAA_VISIBLE_DEVICES",),
        in_dev=("tcaicard",),
        device_files=(Files("dev/tcaicard[0-9]*"),),
        env_prefixes=("SDAA_", "TCCL_", "TECO_"),
    ),
    # AWS Trainium and Inferentia. Masks count cores, and a device has several.
    #
    # If a worker sees the cores of all workers of its node, torch_xla uses the one at LOCAL_RANK.
    # NEURON_LOGICAL_NC_CONFIG joins cores in pairs (Neuron documentation, "Logical NeuronCore
    # configuration").
    Accelerator(
        name="neuron",
        title="NeuronCores",
        comm_backend="xla",
        torch_device="xla",
        visible_env=("NEURON_RT_VISIBLE_CORES",),
        ranges=True,
        in_dev=("neuron",),
        device_files=(Files("dev/neuron[0-9]*", device="sys/class/neuron_device/neuron[0-9]*"),),
        parts=("neuron_core[0-9]*",),
        joined={"NEURON_LOGICAL_NC_CONFIG=2": 2},
        env_prefixes=("NEURON_", "XLA_"),
    ),
    # Google's TPUs.
    #
    # Without a mask, torch_xla gives each worker the chip at LOCAL_RANK; with one, it uses the
    # mask. TPU_VISIBLE_DEVICES is the older name.
    Accelerator(
        name="tpu",
        title="TPU chips",
        comm_backend="xla",
        torch_device="xla",
        visible_env=("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"),
        alone=True,
        in_dev=("accel", "vfio"),
        device_files=(
            Files("dev/accel[0-9]*", device="sys/class/accel/accel[0-9]*/device"),
            Files("dev/vfio/[0-9]*", device="sys/kernel/iommu_groups/[0-9]*/devices"),
        ),
        pci=((0x1AE0, (0x00, 0x08, 0x12, 0xFF)),),
        env_prefixes=("LIBTPU_", "PJRT_", "XLA_"),
    ),
    # Apple's GPUs: torch does not support them on Linux, so only if named, and with one worker.
    Accelerator(
        name="mps",
        title="Apple GPUs",
        comm_backend="gloo",
        built_in=1,
    ),
    # No devices: any number of slots, and nothing to hide from a process.
    Accelerator(
        name="cpu",
        title="processors",
        comm_backend="gloo",
        env_prefixes=("GLOO_", "CCL_", "OMP_", "GOMP_", "KMP_", "MKL_", "DNNL_", "ONEDNN_"),
    ),
)

VENDORS: dict[str, Accelerator] = {vendor.name: vendor for vendor in _ALL}
"""Every vendor by its name. The first whose devices are present is chosen."""


# DS_ACCELERATOR is DeepSpeed's variable, with torch's names for devices: `cuda` for AMD as well.
OVERRIDES = ("DSRUN_ACCELERATOR", "DS_ACCELERATOR")
"""Variables that name the vendor; the first takes precedence."""


CALLED = {
    "gpu": "cuda for NVIDIA, rocm for AMD; without the option, dsrun finds the devices",
    "auto": "without the option, dsrun finds the devices",
    **dict.fromkeys(("nvidia", "nv"), "NVIDIA's GPUs are cuda"),
    **dict.fromkeys(("amd", "hip"), "AMD's GPUs are rocm"),
    "intel": "Intel's GPUs are xpu",
    "ascend": "Ascend's NPUs are npu",
    **dict.fromkeys(("gaudi", "habana"), "Gaudi is hpu"),
    **dict.fromkeys(("metal", "apple"), "Apple's GPUs are mps"),
    "trainium": "Trainium is neuron",
}
"""Other names of accelerators, and their names here."""


def known(name: str, variable: str) -> Accelerator:
    """Return the vendor of this name, which is the value of `variable`.

    Raises:
        ValueError: dsrun does not know it.
    """
    if name not in VENDORS:
        meant = CALLED.get(name.lower(), "")
        meant = meant and f"; {meant}"
        raise ValueError(
            f"{variable}: no accelerator '{name}' (known: {', '.join(VENDORS)}){meant}"
        )
    return VENDORS[name]


def named(name: str | None, option: str) -> dict[str, str]:
    """Return the variable that makes `detect` choose this vendor, the value of `option`, if any.

    Raises:
        ValueError: dsrun does not know it.
    """
    if not name:
        return {}
    known(name, option)
    return {OVERRIDES[0]: name}


def mask(accelerator: Accelerator, entries: Sequence[str]) -> dict[str, str]:
    """Return the variables that show a process exactly these devices, in this order.

    -1 shows none: HIP takes an empty mask for one that is not set.
    """
    return dict.fromkeys(accelerator.visible_env, ",".join(entries) or "-1")


def prefixes() -> tuple[str, ...]:
    """Return the name prefixes of the variables that a vendor's jobs need on every node.

    These are of all vendors: the machine that starts a job often has no devices itself.
    """
    return tuple({prefix for vendor in VENDORS.values() for prefix in vendor.env_prefixes})
