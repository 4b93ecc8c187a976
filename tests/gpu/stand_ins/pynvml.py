"""NVML as it answers for one H200: names, memory and processes; anything else is not supported."""

from __future__ import annotations

from types import SimpleNamespace

import made_up

NVML_NVLINK_MAX_LINKS = 18
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1
NVML_VOLATILE_ECC = 0
nvmlMemory_v2 = 2  # noqa: N816


def nvmlInit() -> None:  # noqa: N802
    if made_up.fault("library"):
        raise RuntimeError("Driver/library version mismatch")


def nvmlShutdown() -> None:  # noqa: N802
    pass


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return str(made_up.DRIVER)


def nvmlSystemGetCudaDriverVersion() -> int:  # noqa: N802
    return 13000


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    return index


def nvmlDeviceGetMinorNumber(_: int) -> int:  # noqa: N802
    return 0


def nvmlDeviceGetName(_: int) -> str:  # noqa: N802
    return "Tesla K80" if made_up.fault("name") else made_up.NAME


def nvmlDeviceGetUUID(_: int) -> str:  # noqa: N802
    return f"GPU-{made_up.UUID}"


def nvmlDeviceGetPciInfo(_: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(busId=f"0000{made_up.ADDRESS}".upper())


def nvmlDeviceGetMemoryInfo(_: int, _version: int = 1) -> SimpleNamespace:  # noqa: N802
    used = sum(made_up.holders().values())
    return SimpleNamespace(total=made_up.TOTAL, used=used)


def nvmlDeviceGetUtilizationRates(_: int) -> SimpleNamespace:  # noqa: N802
    return SimpleNamespace(gpu=97 * bool(made_up.holders() and not made_up.fault("idle")))


def nvmlDeviceGetComputeRunningProcesses(_: int) -> list[SimpleNamespace]:  # noqa: N802
    known = made_up.holders()
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in known.items()]
