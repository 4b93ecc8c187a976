"""The devices of one vendor that this machine has, according to its device files.

In a container, `/dev` has only the container's devices, and `/sys` the whole machine's. The files
of `/dev` are therefore counted, and `/sys` shows the kind of each.
"""

from __future__ import annotations

import os

from ..vendors import NUMBER
from . import sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..vendors import Accelerator, Files


class Device:
    """One device file.

    Attributes:
        folder: its path in /sys; "" for vendors without a known one.
        address: the address of its PCI function, "" if /sys does not lead to one.
    """

    def __init__(self, *, number: int, folder: str, address: str) -> None:
        self.number = number
        self.folder = folder
        self.address = address


def devices(accelerator: Accelerator, root: str = "/") -> tuple[Device, ...]:
    """Return the devices, by ascending number."""
    for files in accelerator.device_files:
        if matching := tuple(_matching(accelerator, files, root)):
            return matching
    return ()


def names(accelerator: Accelerator, environ: Mapping[str, str], root: str = "/") -> tuple[str, ...]:
    """Return the entries of a mask that shows all devices."""
    present = devices(accelerator, root)
    if accelerator.numbered_by:
        return _own_numbers(accelerator, present)
    count = accelerator.built_in + sum(parts(accelerator, one, environ) for one in present)
    return tuple(str(index) for index in range(count))


def parts(accelerator: Accelerator, device: Device, environ: Mapping[str, str]) -> int:
    """Return the number of mask entries of one device."""
    counted = (sum(1 for _ in _matches(device.folder, path)) for path in accelerator.parts)
    count = next((count for count in counted if count), 1)
    for setting, joined in accelerator.joined.items():
        variable, _, value = setting.partition("=")
        if environ.get(variable, "").upper() == value:
            return max(count // joined, 1) if joined else 1
    return count


def own_number(accelerator: Accelerator, device: Device) -> str:
    """Return the device's own number for masks, "" if it has none."""
    return sysfs.line(f"{device.folder}/{accelerator.numbered_by}")


def _own_numbers(accelerator: Accelerator, present: tuple[Device, ...]) -> tuple[str, ...]:
    numbers = [own_number(accelerator, one) for one in present]
    if all(_is_number(number) for number in numbers):
        return tuple(sorted(numbers, key=int))
    return tuple(str(index) for index in range(len(present)))


def _matching(accelerator: Accelerator, files: Files, root: str) -> Iterator[Device]:
    """Yield the vendor's devices, without files that lead to other PCI functions."""
    for number in _numbers(files, root):
        device = _device(accelerator, files, number, root)
        if device.address or not (accelerator.pci and files.device):
            yield device


def _device(accelerator: Accelerator, files: Files, number: int, root: str) -> Device:
    if not files.device:
        return Device(number=number, folder="", address="")
    path = os.path.join(root, files.device.replace(NUMBER, str(number)))
    addresses = (name for name in _addresses(path) if is_kind(accelerator, name, root))
    return Device(number=number, folder=path, address=next(addresses, ""))


def _addresses(path: str) -> list[str]:
    """Return the target of a link, the names in a folder, or the address of a KFD node."""
    if os.path.isfile(path):
        return _kfd_address(properties(sysfs.text(path)))
    if os.path.islink(path):
        return [os.path.basename(os.path.realpath(path))]
    return sysfs.names(path)


def _kfd_address(values: Mapping[str, int]) -> list[str]:
    """Return the PCI address; the upper half of `location_id` is for partitions.

    Source: Linux's drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
    """
    if "location_id" not in values:
        return []
    place, domain = values["location_id"], values.get("domain", 0)
    return [f"{domain:04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"]


def properties(text: str) -> dict[str, int]:
    """Return a KFD node's properties: lines of a name and a number."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and _is_number(pair[1])}


def is_kind(accelerator: Accelerator, address: str, root: str) -> bool:
    """Return whether the PCI function at an address exists and may be a device of the vendor."""
    from . import pci

    function = pci.function(address, root)
    if function is None or address.startswith(accelerator.not_at):
        return False
    return not accelerator.pci or any(
        function.vendor == vendor and function.kind >> 16 in classes
        for vendor, classes in accelerator.pci
    )


def _numbers(files: Files, root: str) -> list[int]:
    paths = _matches(root, files.path)
    usable = (path for path in paths if not files.holds or _is_positive(f"{path}/{files.holds}"))
    start = len(os.path.join(root, files.path.partition(NUMBER)[0]))
    return sorted(int(path[start:]) for path in usable)


def _matches(folder: str, path: str) -> Iterator[str]:
    """Yield the paths that match a path with NUMBER in one component or in several."""
    before, _, after = path.partition(NUMBER)
    parent, stem = os.path.split(os.path.join(folder, before))
    for name in sysfs.names(parent):
        if name.startswith(stem) and _is_number(name[len(stem) :]):
            match = f"{parent}/{name}"
            if after:
                yield from _matches(match, after.lstrip("/"))
            else:
                yield match


def _is_positive(path: str) -> bool:
    text = sysfs.line(path)
    return _is_number(text) and int(text) > 0


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
