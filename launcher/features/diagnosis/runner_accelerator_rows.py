"""Failures of devices by AMD, AWS, Google, Habana, Huawei and Intel."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .runner_device_rows import OWN_DEVICE
from .runner_row import Row, said

MEMORY, NODE, SCRIPT, NETWORK = (
    FailureClass.MEMORY,
    FailureClass.NODE,
    FailureClass.SCRIPT,
    FailureClass.NETWORK,
)
YES, NO, PERHAPS = Retry.YES, Retry.NO, Retry.UNKNOWN

SEE_DEVICES = "see which devices this node has, who uses them, and whether this user may use them"

ACCELERATOR_ROWS = (
    Row(
        "device-file",
        NODE,
        PERHAPS,
        said(
            "/dev/accel",
            "/dev/vfio/",
            "/dev/neuron",
            "/dev/kfd",
            "/dev/dri/",
            "/dev/davinci",
            "/dev/hl",
            "/dev/nvidia",
        ),
        "the device {device} of this node could not be opened: {why}",
        SEE_DEVICES,
        pattern=r"(?P<device>/dev/(?:accel|vfio/|neuron|kfd|dri/|davinci|hl|nvidia)[\w/]{0,40})"
        r"[^\n]{0,80}?(?P<why>Operation not permitted|Permission denied|No such (?:file|device)"
        r"|Device or resource busy|Input/output error|is held by|in use)",
    ),
    Row(
        "device-file",
        NODE,
        PERHAPS,
        said("Device or resource busy: '/dev/"),
        "the device {device} of this node could not be opened: it is in use",
        SEE_DEVICES,
        pattern=r"busy: '(?P<device>/dev/(?:accel|vfio/|neuron|kfd|dri/|davinci|hl|nvidia)"
        r"\w{0,40})",
    ),
    Row(
        "device-none",
        NODE,
        PERHAPS,
        said(
            "TPU initialization failed",
            "No neuron device available",
            "Neuron runtime cannot be initialized",
            "cannot determine the number of available NeuronCores",
            "nrt_init failed",
            "NeuronCores not available",
            "NeuronCore(s) not available",
            "Neuron Core(s) not available",
            "Unable to initialize backend 'tpu'",
            "no supported devices found for platform",
            "No TPU devices were found",
            "[Device not found]",
            "[Device already acquired]",
            "No available HPU",
            "No HPU devices",
            "No device of requested type available",
            "Failed to initialize NVML",
            "NVML Shared Library Not Found",
            "couldn't communicate with the NVIDIA driver",
            "Driver Not Loaded",
            "ROCk module is NOT loaded",
            "drvGetDevNum",
            "dcmi module initialize failed",
        ),
        "this rank found no device that it can use",
        SEE_DEVICES,
    ),
    Row(
        "device-lost",
        NODE,
        YES,
        said(
            "NRT_EXEC_HW_ERR",
            "HBM UE",
            "uncorrectable HBM",
            "HBM multi-bit ECC",
            "DEVICE_LOST",
            "hipErrorECCNotCorrectable",
        ),
        "its device has failed or no longer responds",
        "leave this node out (--exclude), and have its device examined",
    ),
    Row(
        "device-memory",
        MEMORY,
        NO,
        said(
            "failed to allocate",
            "Failed to allocate",
            "Failed to alloc",
            "Allocation failed",
            "Workspace Allocation of size",
            "Memory_Allocation_Failure",
        ),
        "out of device memory",
        "use a smaller batch, shorter sequences or activation checkpointing",
        pattern=r"on NeuronCore|DEVICE memory|[Dd]evice memory|GPU memory|\bHBM\b|DEVMEM|NRT|TDRV"
        r"|Workspace Allocation of size|on device hpu|NPU function error|EL0004",
    ),
    Row(
        "device-ordinal",
        SCRIPT,
        NO,
        said(
            "Invalid HABANA_VISIBLE_MODULES",
            "Invalid HABANA_VISIBLE_DEVICES",
            "nvalid NEURON_RT_VISIBLE_CORES",
            "nvalid NEURON_RT_NUM_CORES",
            "nvalid ASCEND_RT_VISIBLE_DEVICES",
            "nvalid CUDA_VISIBLE_DEVICES",
            "nvalid HIP_VISIBLE_DEVICES",
            "nvalid ROCR_VISIBLE_DEVICES",
            "nvalid ZE_AFFINITY_MASK",
            "nvalid TPU_VISIBLE_CHIPS",
            "device index is out of range. It must be in",
            "Set device failed, invalid device",
            "valid device range is [",
            "Invalid device id",
            "Invalid device ID",
        ),
        "the script uses a device that this rank does not have",
        OWN_DEVICE.replace(" (torch.cuda.set_device)", "")
        + ", and check the variables that select devices",
    ),
    Row(
        "hccl",
        NETWORK,
        YES,
        said("EI0002", "EI0006", "EI0013", "EI0015"),
        "HCCL could not connect the ranks, or lost one",
        "dsrun-check shows whether the nodes can reach each other",
        pattern=r"^ *EI00(?:02|06|13|15)\b",
        echo=True,
    ),
)

_BY_NAME = {row.name: row for row in ACCELERATOR_ROWS}

ACCELERATOR_LINES = tuple(
    row._replace(said=said(*words), pattern=pattern)
    for row, words, pattern in (
        (
            _BY_NAME["device-none"],
            ("No neuron device available", "not available - Requested:", "nrt_init failed"),
            r"^\d{4}-\w{3}-\d\d \d\d:\d\d:.{0,60}\bERROR\b",
        ),
        (
            _BY_NAME["device-memory"],
            ("Failed to alloc", "failed to allocate"),
            r"^\d{4}-\w{3}-\d\d \d\d:\d\d:.{0,60}\bERROR\b.{0,200}\b(?:DEVICE|HBM|device)\b",
        ),
        (
            _BY_NAME["device-ordinal"],
            ("nvalid NEURON_RT_",),
            r"^\d{4}-\w{3}-\d\d \d\d:\d\d:.{0,60}\bERROR\b",
        ),
    )
)
"""Lines of the Neuron runtime."""
