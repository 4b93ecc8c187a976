"""NodeQueries of each vendor, as their kernels and drivers would show them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

CONTROLLER, DISPLAY, ACCELERATOR, NETWORK = 0x030200, 0x030000, 0x120000, 0x020000


class Machine:
    """A root with the files that a kernel and its drivers would show."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "") -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def link(self, path: str, target: str) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.root / target)

    def dev(self, *names: str) -> None:
        for name in names:
            self.write(f"dev/{name}")

    def pci(self, address: str, vendor: int, kind: int, node: int = -1) -> str:
        """Add a PCI function; return where it is below the root."""
        folder = f"sys/devices/pci{address[:7]}/{address}"
        for name, value in (("vendor", f"{vendor:#06x}"), ("class", f"{kind:#08x}")):
            self.write(f"{folder}/{name}", f"{value}\n")
        self.write(f"{folder}/numa_node", f"{node}\n")
        self.link(f"sys/bus/pci/devices/{address}", folder)
        return folder

    def nvidia(self, *gpus: tuple[str, str, int], model: str = "NVIDIA H100") -> None:
        """Add what NVIDIA's driver tells of GPUs: (address, UUID, minor number)."""
        for address, uuid, minor in gpus:
            self.pci(address, 0x10DE, CONTROLLER, node=minor // 2)
            self.write(
                f"proc/driver/nvidia/gpus/{address}/information",
                f"Model: \t\t {model}\nIRQ:   \t\t 180\nGPU UUID: \t {uuid}\n"
                f"Bus Location: \t {address}\nDevice Minor: \t {minor}\nGPU Excluded:\t No\n",
            )

    def kfd(self, *nodes: tuple[int, int, int]) -> None:
        """Add a KFD topology: (gpu_id, location_id, unique_id) of each node."""
        self.dev("kfd")
        for number, (gpu, location, unique) in enumerate(nodes):
            folder = f"sys/class/kfd/kfd/topology/nodes/{number}"
            self.write(f"{folder}/gpu_id", f"{gpu}\n")
            self.write(
                f"{folder}/properties",
                f"cpu_cores_count {0 if gpu else 64}\nsimd_count {304 if gpu else 0}\n"
                f"vendor_id 4098\nlocation_id {location}\ndomain 0\nunique_id {unique}\n",
            )

    def drm(self, minor: int, function: str) -> None:
        self.dev(f"dri/card{minor - 128}", f"dri/renderD{minor}")
        self.link(f"sys/class/drm/renderD{minor}/device", function)


def nvidia(machine: Machine) -> None:
    machine.dev("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
    machine.nvidia(("0000:17:00.0", "GPU-17aa", 0), ("0000:65:00.0", "GPU-65bb", 1))


def amd(machine: Machine) -> None:
    """Two processors and two GPUs, of which the nodes' order is not that of addresses."""
    machine.kfd((0, 0, 0), (0, 0, 0), (50432, 0xC100, 0xABC), (24816, 0x2300, 0xABD))
    machine.drm(128, machine.pci("0000:23:00.0", 0x1002, ACCELERATOR, node=0))
    machine.drm(129, machine.pci("0000:c1:00.0", 0x1002, ACCELERATOR, node=1))


def intel(machine: Machine) -> None:
    machine.drm(128, machine.pci("0000:00:02.0", 0x8086, DISPLAY))
    machine.drm(129, machine.pci("0000:3a:00.0", 0x8086, 0x038000, node=0))
    machine.drm(130, machine.pci("0000:9a:00.0", 0x8086, 0x038000, node=1))


def ascend(machine: Machine) -> None:
    machine.dev("davinci0", "davinci1", "davinci_manager", "devmm_svm", "hisi_hdc")


def gaudi(machine: Machine) -> None:
    """Two, whose module ids are not the numbers of their files, and a laptop-like NPU beside."""
    kinds = (("0000:b3:00.0", 0x1DA3, "5"), ("0000:b4:00.0", 0x1DA3, "4"))
    for number, (address, vendor, module) in enumerate(kinds):
        folder = machine.pci(address, vendor, ACCELERATOR, node=1)
        machine.write(f"{folder}/module_id", f"{module}\n")
        machine.dev(f"accel/accel{number}", f"accel/accel_controlD{number}")
        machine.link(f"sys/class/accel/accel{number}/device", folder)
    machine.dev("accel/accel2")
    machine.link("sys/class/accel/accel2/device", machine.pci("0000:00:0b.0", 0x8086, ACCELERATOR))


def cambricon(machine: Machine) -> None:
    machine.dev("cambricon_dev0", "cambricon_dev1", "cambricon_ctl", "cambricon_ipcm0")
    machine.pci("0000:5f:00.0", 0xCABC, ACCELERATOR, node=0)
    machine.pci("0000:d8:00.0", 0xCABC, ACCELERATOR, node=1)


def moore_threads(machine: Machine) -> None:
    machine.dev("mtgpu.0", "mtgpu.1")
    machine.pci("0000:18:00.0", 0x1ED5, DISPLAY, node=0)
    machine.pci("0000:18:00.1", 0x1ED5, 0x040300, node=0)
    machine.pci("0000:86:00.0", 0x1ED5, DISPLAY, node=1)


def tecorigin(machine: Machine) -> None:
    machine.dev("tcaicard0", "tcaicard1")


def trainium(machine: Machine) -> None:
    """One device of two cores."""
    machine.dev("neuron0")
    for core in range(2):
        machine.write(f"sys/devices/virtual/neuron_device/neuron0/neuron_core{core}/status/total")
    machine.link("sys/class/neuron_device/neuron0", "sys/devices/virtual/neuron_device/neuron0")


def tpu(machine: Machine) -> None:
    """Two chips by vfio, a network card of Google's beside, and a vfio group of something else."""
    machine.dev("vfio/vfio", "vfio/3", "vfio/4", "vfio/9")
    for group, address in ((3, "0000:00:04.0"), (4, "0000:00:05.0")):
        folder = machine.pci(address, 0x1AE0, 0xFF0000, node=0)
        machine.link(f"sys/kernel/iommu_groups/{group}/devices/{address}", folder)
    folder = machine.pci("0000:00:06.0", 0x1AE0, NETWORK)
    machine.link("sys/kernel/iommu_groups/9/devices/0000:00:06.0", folder)


def plain(machine: Machine) -> None:
    machine.dev("null", "kvm")


BUILDERS: dict[str, Callable[[Machine], None]] = {
    "cuda": nvidia,
    "rocm": amd,
    "xpu": intel,
    "npu": ascend,
    "hpu": gaudi,
    "mlu": cambricon,
    "musa": moore_threads,
    "sdaa": tecorigin,
    "neuron": trainium,
    "tpu": tpu,
    "cpu": plain,
}


ENTRIES = dict.fromkeys(BUILDERS, ("0", "1")) | {"hpu": ("4", "5"), "cpu": ()}


ADDRESSES = {
    "cuda": {"0": "0000:17:00.0", "1": "0000:65:00.0"},
    "rocm": {"0": "0000:c1:00.0", "1": "0000:23:00.0"},
    "xpu": {"0": "0000:3a:00.0", "1": "0000:9a:00.0"},
    "hpu": {"4": "0000:b4:00.0", "5": "0000:b3:00.0"},
    "mlu": {"0": "0000:5f:00.0", "1": "0000:d8:00.0"},
    "musa": {"0": "0000:18:00.0", "1": "0000:86:00.0"},
    "tpu": {"0": "0000:00:04.0", "1": "0000:00:05.0"},
}
"""The others' devices are in an order of their own, or no PCI functions: better unknown."""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def built(machine: Machine, *names: str) -> str:
    for name in names:
        BUILDERS[name](machine)
    return str(machine.root)
