"""The visible devices, asked by a child that may hang or die."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.accelerator.hardware.nvml import Gpu, GpuProcess, Rows
from dsrun.launcher.control.facts import DeviceFacts
from dsrun.launcher.features.quick_check import node_devices as devices
from dsrun.launcher.features.quick_check.node_devices import DeviceFactsQuestion, facts_of

from ...support.limits import NEVER

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("adopting")

GIB = 1 << 30


def test_a_device_is_described() -> None:
    rows = Rows(correctable=0, uncorrectable=1, pending=True, failed=False)
    mine = GpuProcess(pid=os.getpid(), held=GIB)
    gone = GpuProcess(pid=1 << 30, held=None)
    gpu = Gpu(
        index=0,
        uuid="GPU-1",
        address="0000:17:00.0",
        name="H100",
        total=80 * GIB,
        used=GIB,
        rows=rows,
        processes=(mine, gone),
    )
    found = facts_of("0", gpu, {os.getuid(): "alice"})
    assert found[:4] == ("0", "H100", 80 * GIB, 79 * GIB)
    assert found.problems == ("a bad memory row is waiting to be remapped: reset the GPU",)
    assert found.users == (f"pid {os.getpid()} (alice)", f"pid {1 << 30}")
    other = facts_of("0", Gpu(index=0, address="a", processes=(mine,)), {})
    assert (other.total, other.free) == (0, 0)
    assert other.users == (f"pid {os.getpid()} (uid {os.getuid()})",)


def test_a_child_answers() -> None:
    row = DeviceFacts("0", "H100", 1, 1, (), ("pid 1",))
    question = DeviceFactsQuestion(lambda: [row, {"cuda_driver": "12.4"}])
    assert question.answer() == [["0", "H100", 1, 1, [], ["pid 1"]], {"cuda_driver": "12.4"}]


def _hang() -> list[Any]:
    time.sleep(NEVER)
    return []


def _die() -> list[Any]:
    os._exit(1)


@pytest.mark.parametrize("ask", [_hang, _die])
def test_no_answer_is_no_devices(
    ask: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "SECONDS", 0.2)
    question = DeviceFactsQuestion(ask)
    assert question.answer() == []
    # One that was killed is reaped as any child is: here by the test.
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break


def test_without_a_driver_there_is_nothing_to_read() -> None:
    assert devices.read({}, ["/nonexistent"])[-1] in ({}, devices.read({}, [])[-1])


NVML = """
import types
nvmlMemory_v2 = 2
NVML_MEMORY_ERROR_TYPE_UNCORRECTED = NVML_VOLATILE_ECC = 0
def nvmlInit(): pass
def nvmlShutdown(): pass
def nvmlSystemGetDriverVersion(): return "550.54.15"
def nvmlSystemGetCudaDriverVersion(): return 12040
def nvmlDeviceGetCount(): return 2
def nvmlDeviceGetHandleByIndex(index): return index
def nvmlDeviceGetName(handle): return "H100"
def nvmlDeviceGetUUID(handle): return f"GPU-{handle}"
def nvmlDeviceGetPciInfo(handle): return types.SimpleNamespace(busId=f"00000000:{handle + 1}7:00.0")
def nvmlDeviceGetMemoryInfo(handle, version=1): return types.SimpleNamespace(total=80, used=8)
def nvmlDeviceGetTotalEccErrors(handle, *kinds): return handle
"""


def _asked(addresses: dict[str, str], folder: Path) -> list[Any]:
    """Return what a child reads with the NVML in a folder."""
    (folder / "pynvml.py").write_text(NVML)

    def ask() -> list[Any]:
        sys.modules.pop("pynvml", None)
        sys.path.insert(0, str(folder))
        return devices.read(addresses, [])

    return DeviceFactsQuestion(ask).answer()


def test_nvml_is_found_where_the_workers_have_it(tmp_path: Path) -> None:
    """Only the child imports it; the devices are those that are visible, by their addresses."""
    addresses = {"0": "0000:27:00.0", "7": "0000:99:00.0"}
    row, versions = _asked(addresses, tmp_path)
    assert row[:4] == ["0", "H100", 80, 72]
    assert row[4] == ["1 uncorrected memory error since the driver was loaded"]
    assert versions == {"cuda_driver": "12.4"}
    assert str(tmp_path) not in sys.path


def test_devices_without_a_known_address_are_told_by_number_or_uuid(tmp_path: Path) -> None:
    """As where a sandboxed kernel hides /proc/driver/nvidia."""
    *rows, _ = _asked(dict.fromkeys(("1", "GPU-0", "GPU-", "7", "MIG-1"), ""), tmp_path)
    assert [(row[0], row[4]) for row in rows] == [
        ("1", ["1 uncorrected memory error since the driver was loaded"]),
        ("GPU-0", []),
    ]


def test_numbers_of_different_models_tell_nothing() -> None:
    """CUDA may count the fastest first."""
    gpus = [Gpu(index=0, name="T4", uuid="GPU-a"), Gpu(index=1, name="H100", uuid="GPU-b")]
    assert devices._meant("0", "", gpus) is None
    assert devices._meant("GPU-b", "", gpus) is gpus[1]
