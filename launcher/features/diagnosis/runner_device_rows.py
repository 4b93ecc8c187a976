"""Failures of devices, device memory and collectives."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .runner_row import Row, said

MEMORY, NODE, NETWORK, SCRIPT = (
    FailureClass.MEMORY,
    FailureClass.NODE,
    FailureClass.NETWORK,
    FailureClass.SCRIPT,
)
YES, NO = Retry.YES, Retry.NO

SMALLER = (
    "use a smaller batch, shorter sequences or activation checkpointing;"
    " PYTORCH_ALLOC_CONF=expandable_segments:True helps if much memory is reserved but unallocated"
)
SEE_CALL = "CUDA_LAUNCH_BLOCKING=1 shows the call that failed"
ANOTHER_NODE = "leave this node out (--exclude), and have its device examined"
SEE_NCCL = "NCCL_DEBUG=WARN shows what failed"
SHARED = "make /dev/shm larger (in a container: --shm-size), or remove old files from it"
OWN_DEVICE = "make each rank use the device of its LOCAL_RANK (torch.cuda.set_device)"
INSTALL = "install a build of torch for this device and driver"

_OOM = said(
    "CUDA out of memory",
    "HIP out of memory",
    "XPU out of memory",
    "NPU out of memory",
    "CUDA error: out of memory",
    "HIP error: out of memory",
    "Cuda failure 'out of memory'",
    "Cuda failure 2 'out of memory'",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "RESOURCE_EXHAUSTED: Out of memory",
    "OOM when allocating tensor",
    "MPS backend out of memory",
    "hipErrorOutOfMemory",
    "CUDA_ERROR_OUT_OF_MEMORY",
    "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    "ERROR_OUT_OF_DEVICE_MEMORY",  # of Level Zero, after UR_RESULT_, PI_ or ZE_RESULT_
    "PT_DEVMEM Allocation failed",  # of Habana
    "EL0004: Failed to allocate memory",  # of CANN
)

_SIZES = (
    (
        r"Tried to allocate (?P<tried>[\d.]+ \w+)[\s\S]{0,200}?(?P<gpu>GPU \d+) has a total"
        r" capacity of (?P<total>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free",
        "out of GPU memory on {gpu}: {tried} requested, {free} of {total} free",
    ),
    (
        r"Tried to allocate (?P<tried>[\d.]+ \w+) \((?P<gpu>\w+ \d+);"
        r" (?P<total>[\d.]+ \w+) total capacity;[^()]{0,200}? (?P<free>[\d.]+ \w+) free",
        "out of memory on {gpu}: {tried} requested, {free} of {total} free",
    ),
    (
        r"Tried to allocate (?P<tried>[\d.]+ \w+)\. (?P<gpu>GPU \d+) has a total capacity"
        r" of (?P<total>[\d.]+ \w+)",
        "out of GPU memory on {gpu}: {tried} requested, but it has only {total}",
    ),
)
"""Names of sizes in torch's messages about exhausted device memory, and the sentence for each."""

ABSURD_SIZE_ROWS = (
    Row(
        "absurd-size",
        SCRIPT,
        NO,
        said("ried to allocate ", "Unable to allocate "),
        "the program requests {tried} of memory, which no machine has: check how it computes sizes",
        # From 100 TB on.
        pattern=r"(?:ried|Unable) to allocate (?P<tried>\d{15,} bytes|\d{6,}(?:\.\d+)? GiB"
        r"|\d{3,}(?:\.\d+)? TiB|\d+(?:\.\d+)? [PE]iB)",
    ),
    Row(
        "absurd-size",
        SCRIPT,
        NO,
        said(
            "Storage size calculation overflowed",
            "numel: integer multiplication overflow",
            "Maximum allowed dimension exceeded",
            "is larger than the maximum possible size",
        ),
        "the program requests more memory than can be addressed",
        "check how it computes sizes",
    ),
)
"""Sizes that are mistakes, however large the memory."""

DEVICE_ROWS = (
    *ABSURD_SIZE_ROWS,
    Row(
        "engine-memory",
        MEMORY,
        said=said("on startup is less than desired GPU memory utilization"),
        pattern=r"Free memory on device ?\((?P<free>[\d.]+/[\d.]+ GiB)\) on startup is less than"
        r" desired GPU memory utilization \((?P<part>[\d.]+), (?P<wanted>[\d.]+ GiB)\)",
        sentence="too little free GPU memory when the engine started: {free}, but it needs"
        " {wanted} (gpu_memory_utilization {part})",
        advice="see what else uses the device (dsrun-check), or lower gpu_memory_utilization",
    ),
    Row(
        "engine-memory",
        MEMORY,
        said=said("on startup is less than desired GPU memory utilization"),
        pattern=r"Free memory on device ?(?P<device>[\w:]*) ?\((?P<free>[\d.]+)/(?P<total>[\d.]+)"
        r" GiB\) on startup is less than desired GPU memory utilization"
        r" \((?P<part>[\d.]+), (?P<wanted>[\d.]+ GiB)\)",
        sentence="too little free GPU memory at the start of the engine: {free} of {total} GiB"
        " on {device}, but it needs {wanted} (gpu_memory_utilization {part})",
        advice="see what else uses the device (dsrun-check), or lower gpu_memory_utilization",
    ),
    Row(
        "device-memory-shared",
        MEMORY,
        said=_OOM,
        pattern=r"Process (?P<pid>\d+) has (?P<used>[\d.]+ \w+) memory in use",
        sentence="out of GPU memory; process {pid} uses {used} of it",
        advice="see what else uses the device (dsrun-check); " + OWN_DEVICE,
    ),
    *(
        Row("device-memory", MEMORY, NO, _OOM, sentence, SMALLER, pattern=pattern)
        for pattern, sentence in _SIZES
    ),
    Row("device-memory", MEMORY, NO, _OOM, "out of GPU memory", SMALLER),
    Row(
        "device-ecc",
        NODE,
        YES,
        said("uncorrectable ECC error", "uncorrectable NVLink error"),
        "its device has defective memory or a defective link",
        ANOTHER_NODE,
    ),
    Row(
        "device-lost",
        NODE,
        YES,
        said(
            "GPU is lost",
            "GPU has fallen off the bus",
            "CUDA error: device not ready",
            "ERROR_DEVICE_LOST",
            "error code is 507010",  # CANN's, of a lost heartbeat
            "due to lost heartbeat",
        ),
        "its device no longer responds",
        ANOTHER_NODE,
    ),
    Row(
        "device-assert",
        SCRIPT,
        NO,
        said("device-side assert triggered"),
        "a check of {kernel} on the device failed ({check}), often because an index such as a"
        " label or token id is out of range",
        SEE_CALL,
        pattern=r": (?P<kernel>[^\s:][^:\n]{0,99}): block: \[[^`\n]{0,99}`"
        r"(?P<check>[^`\n]{1,99})` f",
    ),
    Row(
        "device-assert",
        SCRIPT,
        NO,
        said("device-side assert triggered"),
        "a check on the device failed, often because an index such as a label or token id is out of"
        " range",
        SEE_CALL,
    ),
    Row(
        "device-access",
        said=said("illegal memory access", "misaligned address", "unspecified launch failure"),
        sentence="a kernel on the device accessed memory that is not its own:"
        " a bug in the kernel, or a hardware defect",
        advice=SEE_CALL + "; if it happens on one node only, leave that node out (--exclude)",
        finds="xid",
    ),
    Row(
        "device-build",
        SCRIPT,
        NO,
        said(
            "no kernel image is available",
            "invalid device function",
            "Torch not compiled with ",
            "device type at start of device string",
        ),
        "torch was built without code for this device",
        INSTALL,
    ),
    Row(
        "device-ordinal",
        SCRIPT,
        NO,
        said(
            "invalid device ordinal",
            "Attempting to deserialize object on CUDA device",
            "But your machine only has",
        ),
        "the script uses a device that this rank does not have",
        OWN_DEVICE,
    ),
    Row(
        "driver-old",
        NODE,
        NO,
        said(
            "driver version is insufficient",
            "NVIDIA driver on your system is too old",
            "Driver/library version mismatch",
            "forward compatibility was attempted on non supported HW",
        ),
        "this node's driver does not match: it is too old, or was updated without a restart",
        "update the driver, or restart the node; dsrun-check compares the nodes",
    ),
    Row(
        "device-fabric",
        NODE,
        YES,
        said("Error 802: system not yet initialized"),
        "the links between the devices of this node are not set up",
        "start nvidia-fabricmanager there",
    ),
    Row(
        "device-none",
        NODE,
        said=said(
            "Found no NVIDIA driver",
            "No CUDA GPUs are available",
            "no CUDA-capable device is detected",
            "CUDA unknown error",
            "CUDA driver initialization failed",
            "No supported gpu backend found",
            "can not run on your system since the accelerator is not available",
            "CUDA-capable devices are busy or unavailable",
            "CUDA-capable device(s) is/are busy or unavailable",
            "No HIP GPUs are available",
            "no ROCm-capable device is detected",
            "No XPU devices are available",
            "Device acquire failed",  # of Habana
            "NPU function error: aclrtSetDevice",
            "NPU function error: aclInit",
            "Failed to infer device type",  # of vLLM
        ),
        sentence="this rank found no device that it can use",
        advice="dsrun-check shows the devices of each node; CUDA_VISIBLE_DEVICES may hide them",
    ),
    Row(
        "cache-memory",
        MEMORY,
        NO,
        said(
            "No available memory for the cache blocks",
            "is larger than the available KV cache memory",
            "that can be stored in KV cache",
            "Please try to increase --mem-fraction-static",
        ),
        "its device has too little memory for the requested KV cache",
        "give the engine more memory (vLLM: gpu_memory_utilization; SGLang: mem_fraction_static),"
        " a shorter context or more devices",
    ),
    Row(
        "device-in-use",
        NODE,
        said=said("The TPU is already in use by"),
        sentence="another process is using the TPU",
        advice="stop that process",
    ),
    Row(
        "device-library",
        said=said("CUBLAS_STATUS_NOT_INITIALIZED", "CUDNN_STATUS_NOT_INITIALIZED"),
        sentence="a device library could not start, often because device memory is short",
        advice=SMALLER,
    ),
    Row(
        "device-cudnn",
        SCRIPT,
        NO,
        said("cuDNN version incompatibility"),
        "another cuDNN is found before the one that torch was built with",
        "remove it from LD_LIBRARY_PATH",
    ),
    Row(
        "device-fork",
        SCRIPT,
        NO,
        said("Cannot re-initialize CUDA in forked subprocess"),
        "the device was used before a fork",
        "start data loaders with multiprocessing_context='spawn', or use the device later",
    ),
)

DEVICE_LINES = (
    Row(
        "device-memory",
        MEMORY,
        NO,
        said("OutOfMemoryError: CUDA out of memory", "OutOfMemoryError: HIP out of memory"),
        "out of GPU memory",
        SMALLER,
        pattern=r"^(?:ERROR:? )?torch\.(?:cuda\.)?OutOfMemoryError: ",
    ),
    *(row for row in DEVICE_ROWS if row.name in {"device-ecc", "device-lost", "driver-old"}),
)
"""Rows whose words mean this even without an exception."""

_NO_INTERFACE = said(
    "no socket interface found",
    "Bootstrap : no ",
    "Failed to find any interface",
    "NET/Socket : no interface found",
)

NCCL_ROWS = (
    Row(
        "nccl-duplicate",
        SCRIPT,
        NO,
        said("Duplicate GPU detected"),
        "two ranks use the same device",
        OWN_DEVICE,
    ),
    Row(
        "nccl-shm",
        MEMORY,
        NO,
        said(
            "Error while creating shared memory segment",
            "/dev/shm/nccl-",
            "posix_fallocate failed",
        ),
        "NCCL found no room in /dev/shm",
        SHARED,
    ),
    Row(
        "nccl-memlock",
        NODE,
        NO,
        said("ibv_reg_mr", "ibv_create_cq", "ibv_create_qp"),
        pattern=r"Cannot\sallocate memory",
        sentence="this node's limit on locked memory is too low for InfiniBand",
        advice="raise it there (ulimit -l, limits.conf, or the container's settings)",
    ),
    Row(
        "nccl-no-interface",
        NETWORK,
        NO,
        _NO_INTERFACE,
        "NCCL found no network interface that it may use: NCCL_SOCKET_IFNAME is {names}",
        "dsrun-check shows the interfaces",
        pattern=r"NCCL_SOCKET_IFNAME set (?:by environment )?to (?P<names>[\w^=,.:-]{1,99})",
    ),
    Row(
        "nccl-no-interface",
        NETWORK,
        NO,
        _NO_INTERFACE,
        "NCCL found no network interface that it may use",
        "check NCCL_SOCKET_IFNAME; dsrun-check shows the interfaces",
    ),
    Row(
        "nccl-link",
        NETWORK,
        YES,
        said("Got completion from peer", "Got completion with"),
        "the InfiniBand link to {peer} failed ({status})",
        "dsrun-check --full measures the links; " + SEE_NCCL,
        pattern=r"NCCL WARN NET/IB[^\n]{0,40}Got completion from peer (?P<peer>[\w.:-]{1,80})"
        r"\S{0,20} with (?P<status>status=\w+|error \d+)",
    ),
    Row(
        "nccl-link",
        NETWORK,
        YES,
        said("NCCL WARN Call to ibv_", "NCCL WARN NET/OFI"),
        "the network between devices failed",
        "dsrun-check --full measures the links; " + SEE_NCCL,
        pattern=r"NCCL WARN (?:Call to ibv_\w+ failed|NET/OFI [^\n]{0,99}completed with error)",
    ),
    Row(
        "nccl-peer",
        NETWORK,
        YES,
        said("Connect to ", "connect to ", "closed by remote peer "),
        "NCCL could not connect to {peer}, or lost the connection",
        "dsrun-check shows whether the nodes can reach each other; " + SEE_NCCL,
        pattern=r"NCCL WARN [^\n]{0,80}?(?:[Cc]onnect to |closed by remote peer )"
        r"(?P<peer>[\w.:-]{1,80}(?:<\d+>)?)(?: failed| returned|$)",
        echo=True,
    ),
    Row(
        "nccl-link",
        NETWORK,
        YES,
        said("ibv_", "IBV_WC_RETRY_EXC_ERR", "Got completion from peer", "NET/IB", "NET/OFI"),
        "the network between devices failed",
        "dsrun-check --full measures the links; " + SEE_NCCL,
        pattern=r"(failed|error|timed out|status=12|ERR)",
        raised=("DistBackendError", "RuntimeError"),
    ),
    Row(
        "nccl-connect",
        NETWORK,
        YES,
        said("Connection refused", "No route to host", "connection abort", "Connection timed out"),
        "NCCL could not connect to another rank",
        "dsrun-check shows whether the nodes can reach each other; " + SEE_NCCL,
        raised=("DistBackendError",),
        echo=True,
    ),
    Row(
        "nccl-timeout",
        said=said(
            "Watchdog caught collective operation timeout", "Some NCCL operations have failed"
        ),
        pattern=r"WorkNCCL\(SeqNum=(?P<number>\d+), OpType=(?P<what>\w+)"
        r"[\s\S]{0,400}?ran for (?P<ms>\d+) milliseconds",
        sentence="collective {number} ({what}) timed out after {ms} ms:"
        " another rank did not take part in it",
        advice="look at the rank that did not take part; dsrun-job stacks shows where each rank is",
        echo=True,
    ),
    Row(
        "nccl-remote",
        NETWORK,
        YES,
        said("ncclRemoteError", "remote process exited or there was a network error"),
        "NCCL lost the connection to another rank",
        SEE_NCCL,
        echo=True,
    ),
    Row(
        "nccl-mismatch",
        SCRIPT,
        NO,
        said("Detected mismatch between collectives on ranks"),
        "the ranks called different collectives: rank {one} is in {ones}, rank {other} in {others}",
        pattern=r"Rank (?P<one>\d+) is running collective: CollectiveFingerPrint\("
        r"[^()]{0,60}?OpType=(?P<ones>\w+)[\s\S]{0,500}?Rank (?P<other>\d+) is running collective:"
        r" CollectiveFingerPrint\([^()]{0,60}?OpType=(?P<others>\w+)",
    ),
    Row(
        "nccl-mismatch",
        SCRIPT,
        NO,
        said("Detected mismatch between collectives on ranks", "disagreement between rank"),
        "the ranks called different collectives",
    ),
    Row(
        "nccl-versions",
        SCRIPT,
        NO,
        said("Mismatched NCCL version", "NCCL version mismatch"),
        "the ranks use different versions of NCCL",
        "install the same torch on all nodes; dsrun-check compares them",
    ),
    Row(
        "nccl-usage",
        SCRIPT,
        NO,
        said("ncclInvalidUsage", "ncclInvalidArgument"),
        "NCCL was called incorrectly, for example by two ranks on one device",
        OWN_DEVICE + "; " + SEE_NCCL,
    ),
    Row(
        "nccl-system",
        said=said("ncclSystemError", "unhandled system error", "ncclInternalError"),
        sentence="a system call of NCCL failed",
        advice=SEE_NCCL,
        echo=True,
    ),
    Row(
        "hccl",
        NETWORK,
        YES,
        said("DIST call hccl api failed", "HCCL function error"),
        "HCCL could not connect the ranks, or lost one",
        "dsrun-check shows whether the nodes can reach each other",
        echo=True,
    ),
    Row(
        "nccl-cuda",
        said=said("ncclUnhandledCudaError", "unhandled cuda error"),
        sentence="a CUDA call of NCCL failed",
        advice=SEE_NCCL,
        finds="xid",
    ),
)

_WARNED = {
    "nccl-memlock",
    "nccl-duplicate",
    "nccl-shm",
    "nccl-peer",
    "nccl-timeout",
    "nccl-no-interface",
}

NCCL_LINES = tuple(
    row._replace(pattern=row.pattern or r"^.{0,80}\[\d+\] .{0,120}NCCL WARN ")
    for row in NCCL_ROWS
    if row.name in _WARNED or (row.name == "nccl-link" and "NCCL WARN" in row.pattern)
)
"""Rows whose words mean this even without an exception."""
