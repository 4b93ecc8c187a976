"""NVIDIA GPUs as their driver describes them: through NVML if it works, else through /proc."""

from __future__ import annotations

import os
import re
from importlib import import_module

from . import pci, procfs, sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any, TypeVar

    T = TypeVar("T")

# Words of 64 CPUs that NVML may fill: Linux supports 8192 CPUs at most.
_CPU_WORDS = 128

_PROCESSES = (
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses",
)

_GIB = 1 << 30


class GpuProcess:
    """A process that uses a GPU: its pid, and the bytes it holds there, None if unknown."""

    def __init__(self, *, pid: int, held: int | None) -> None:
        self.pid = pid
        self.held = held


class Rows:
    """Rows of a GPU's memory that were remapped to spare ones.

    Attributes:
        correctable: the number of rows after errors that ECC could correct.
        uncorrectable: the number of rows after errors that ECC could not correct.
        pending: whether a row will be remapped at the next reset.
        failed: whether a row could not be remapped.
    """

    def __init__(
        self, *, correctable: int, uncorrectable: int, pending: bool, failed: bool
    ) -> None:
        self.correctable = correctable
        self.uncorrectable = uncorrectable
        self.pending = pending
        self.failed = failed


class Mig:
    """A MIG device: its UUID, its name, and the UUID of its GPU."""

    def __init__(self, *, uuid: str, name: str | None, parent: str | None) -> None:
        self.uuid = uuid
        self.name = name
        self.parent = parent


class Gpu:
    """One GPU. Facts that the driver does not report are None, or () for a list.

    Attributes:
        index: its number in nvidia-smi, which counts by PCI address.
        minor: the number in the name of its device file.
        name: the name of the product, as in `NVIDIA H100 80GB HBM3`.
        uuid: such as `GPU-8932f937-d72c-4106-c12f-20bd9faed9f6`.
        address: its PCI address as sysfs writes it: `0000:17:00.0`.
        total: bytes of memory.
        used: bytes of memory in use.
        busy: percent of the recent time in which it worked.
        processes: the processes that use it, if visible from here.
        ecc: whether error correction is on.
        uncorrected: memory errors that ECC could not correct, since the driver was loaded.
        rows: remapped rows of its memory.
        links: the number of active NVLinks.
        peers: PCI addresses at the other ends of these: GPUs, or NVSwitches.
        cpus: the CPUs near to it.
        driver: the driver's version.
        cuda: the newest CUDA version that the driver supports, as in `12.4`.
    """

    def __init__(
        self,
        *,
        index: int,
        minor: int | None = None,
        name: str | None = None,
        uuid: str | None = None,
        address: str | None = None,
        total: int | None = None,
        used: int | None = None,
        busy: int | None = None,
        processes: tuple[GpuProcess, ...] = (),
        ecc: bool | None = None,
        uncorrected: int | None = None,
        rows: Rows | None = None,
        links: int | None = None,
        peers: tuple[str, ...] = (),
        cpus: tuple[int, ...] = (),
        migs: tuple[Mig, ...] = (),
        driver: str | None = None,
        cuda: str | None = None,
    ) -> None:
        self.index = index
        self.minor = minor
        self.name = name
        self.uuid = uuid
        self.address = address
        self.total = total
        self.used = used
        self.busy = busy
        self.processes = processes
        self.ecc = ecc
        self.uncorrected = uncorrected
        self.rows = rows
        self.links = links
        self.peers = peers
        self.cpus = cpus
        self.migs = migs
        self.driver = driver
        self.cuda = cuda


def ask(question: Callable[..., T], *arguments: Any) -> T | None:
    """Call a function and return its answer, or None if it fails.

    Many things may go wrong: a GPU without the feature, a driver without the function, a GPU that
    is lost, a name that is not UTF-8.
    """
    try:
        return question(*arguments)
    except Exception:
        return None


def is_installed() -> bool:
    """Return whether this Python has NVML's module."""
    from importlib.util import find_spec

    return find_spec("pynvml") is not None


def read(*names: str) -> tuple[Gpu, ...]:
    """Return this machine's GPUs; () without NVML or its driver. Nothing is raised or printed.

    With names of attributes, only these are read, which is quicker.

    Source: NVIDIA's NVML API reference.
    """
    nvml = ask(_opened)
    if nvml is None:
        return ()
    try:
        return ask(_gpus, nvml, names or tuple(_FACTS)) or ()
    finally:
        ask(nvml.nvmlShutdown)


def from_proc(root: str = "/") -> tuple[Gpu, ...]:
    """Return the driver's facts without NVML: index, minor, name, UUID, address, version.

    Excluded GPUs are left out, as in NVML and CUDA.
    """
    folder = os.path.join(root, "proc/driver/nvidia")
    version = re.search(r"\s(\d+\.\d[\d.]*)\s", sysfs.text(f"{folder}/version"))
    driver = version[1] if version else None
    usable = [one for one in procfs.gpus(f"{folder}/gpus") if not procfs.is_excluded(one[1])]
    return tuple(
        _from_facts(index, address, facts, driver) for index, (address, facts) in enumerate(usable)
    )


def problems(gpu: Gpu, own: Collection[int] = ()) -> tuple[str, ...]:
    """Return the problems of a GPU that the user should know before a job starts, one line each.

    `own` are the pids of processes that are expected there. What to do about rows is from NVIDIA's
    GPU memory error management guide.
    """
    return (*_memory_problems(gpu), *_process_problems(gpu, own))


def _memory_problems(gpu: Gpu) -> Iterator[str]:
    if gpu.uuid is None and gpu.address is None:
        yield "the driver does not report it: search the kernel log for NVRM and Xid"
    if gpu.rows and gpu.rows.failed:
        yield "a bad memory row could not be remapped: have the GPU replaced"
    if gpu.rows and gpu.rows.pending:
        yield "a bad memory row is waiting to be remapped: reset the GPU"
    if gpu.uncorrected:
        plural = "" if gpu.uncorrected == 1 else "s"
        yield f"{gpu.uncorrected} uncorrected memory error{plural} since the driver was loaded"


def _process_problems(gpu: Gpu, own: Collection[int]) -> Iterator[str]:
    for process in gpu.processes:
        if process.pid in own:
            continue
        held = "some" if process.held is None else f"{process.held / _GIB:.1f} GiB"
        yield f"process {process.pid} holds {held} of its memory"


def _opened() -> Any:
    """Return NVML, initialised; raise any exception if that fails."""
    nvml = import_module("pynvml")
    nvml.nvmlInit()
    return nvml


def _gpus(nvml: Any, names: tuple[str, ...]) -> tuple[Gpu, ...]:
    driver = ask(nvml.nvmlSystemGetDriverVersion)
    cuda = ask(lambda: _version(nvml.nvmlSystemGetCudaDriverVersion()))
    return tuple(
        Gpu(index=index, driver=driver, cuda=cuda, **_facts(nvml, index, names))
        for index in range(nvml.nvmlDeviceGetCount())
    )


def _facts(nvml: Any, index: int, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the known facts about one GPU: none about a lost one."""
    handle = ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return {}
    answers = {name: ask(_FACTS[name], nvml, handle) for name in names}
    return {name: answer for name, answer in answers.items() if answer is not None}


def _memory(nvml: Any, handle: Any) -> Any:
    # The older form counts the driver's reserve as used.
    newer = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2))
    return newer or nvml.nvmlDeviceGetMemoryInfo(handle)


def _processes(nvml: Any, handle: Any) -> tuple[GpuProcess, ...]:
    lists = (ask(lambda name=name: getattr(nvml, name)(handle)) for name in _PROCESSES)
    held = {one.pid: one.usedGpuMemory for some in lists for one in some or ()}
    return tuple(GpuProcess(pid=pid, held=held[pid]) for pid in sorted(held))


def _uncorrected(nvml: Any, handle: Any) -> Any:
    kinds = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return nvml.nvmlDeviceGetTotalEccErrors(handle, *kinds)


def _rows(nvml: Any, handle: Any) -> Rows:
    correctable, uncorrectable, pending, failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return Rows(
        correctable=correctable,
        uncorrectable=uncorrectable,
        pending=bool(pending),
        failed=bool(failed),
    )


def _active(nvml: Any, handle: Any) -> list[int] | None:
    """Return the NVLinks that are up; None if the GPU has none, up or down."""
    links = range(nvml.NVML_NVLINK_MAX_LINKS)
    states = {link: ask(nvml.nvmlDeviceGetNvLinkState, handle, link) for link in links}
    if all(state is None for state in states.values()):
        return None
    return [link for link, state in states.items() if state]


def _links(nvml: Any, handle: Any) -> int | None:
    active = _active(nvml, handle)
    return None if active is None else len(active)


def _peers(nvml: Any, handle: Any) -> tuple[str, ...]:
    active = _active(nvml, handle) or ()
    ends = (ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link) for link in active)
    return tuple(sorted({pci.normal(end.busId) for end in ends if end}))


def _migs(nvml: Any, handle: Any) -> tuple[Mig, ...]:
    parent = ask(nvml.nvmlDeviceGetUUID, handle)
    places = range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))
    parts = (ask(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, place) for place in places)
    return tuple(
        Mig(uuid=uuid, name=ask(nvml.nvmlDeviceGetName, part), parent=parent)
        for part in parts
        if part is not None and (uuid := ask(nvml.nvmlDeviceGetUUID, part))
    )


_FACTS: dict[str, Callable[[Any, Any], Any]] = {
    "minor": lambda nvml, handle: nvml.nvmlDeviceGetMinorNumber(handle),
    "name": lambda nvml, handle: nvml.nvmlDeviceGetName(handle),
    "uuid": lambda nvml, handle: nvml.nvmlDeviceGetUUID(handle),
    "address": lambda nvml, handle: pci.normal(nvml.nvmlDeviceGetPciInfo(handle).busId),
    "total": lambda nvml, handle: _memory(nvml, handle).total,
    "used": lambda nvml, handle: _memory(nvml, handle).used,
    "busy": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "processes": _processes,
    "ecc": lambda nvml, handle: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
    "uncorrected": _uncorrected,
    "rows": _rows,
    "links": _links,
    "peers": _peers,
    "cpus": lambda nvml, handle: bits(nvml.nvmlDeviceGetCpuAffinity(handle, _CPU_WORDS)),
    "migs": _migs,
}
"""Each is read separately: a failure affects only one."""


def bits(words: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of the bits that are set in words of 64, the lowest first."""
    return tuple(
        64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1
    )


def _version(number: int) -> str:
    """Return a version of NVML's as text: 12040 is CUDA 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _from_facts(index: int, address: str, facts: Mapping[str, str], driver: str | None) -> Gpu:
    uuid = facts.get("GPU UUID", "")
    minor = facts.get("Device Minor", "")
    return Gpu(
        index=index,
        minor=int(minor) if minor.isdecimal() else None,
        name=facts.get("Model"),
        # The driver shows question marks until something has used the GPU.
        uuid=uuid if uuid and "?" not in uuid else None,
        address=address,
        driver=driver,
    )
