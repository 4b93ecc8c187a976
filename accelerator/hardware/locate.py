"""The PCI address of each entry of a mask, as far as the kernel reveals it."""

from __future__ import annotations

import os

from . import pci, present, procfs, sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..vendors import Accelerator


class DevicePlace:
    """One device.

    Attributes:
        address: the address of its PCI function.
        name: its UUID, or its own number for masks; "" if it has neither.
        cards: the number of devices before it, whatever parts each has.
    """

    def __init__(self, address: str, name: str = "", cards: int = 0) -> None:
        self.address = address
        self.name = name
        self.cards = cards


def locate(
    accelerator: Accelerator,
    entries: Sequence[str],
    outer: Sequence[str] | None,
    environ: Mapping[str, str],
    root: str = "/",
) -> dict[str, str]:
    """Return the address of each entry, if known.

    Args:
        accelerator: the vendor of the devices.
        entries: the entries of a mask.
        outer: the entries of an outer mask, to which numbers refer; None without one.
        environ: has variables that affect how a vendor's library counts.
        root: the folder that holds /dev, /proc and /sys.
    """
    if accelerator.information:
        places, counted = _informed(accelerator, environ, root)
    else:
        places, counted = tuple(_places(accelerator, environ, root)), True
    addresses = {}
    for entry in entries:
        name = _through(entry, outer)
        place = _meant(name, places, counted=counted and not accelerator.numbered_by)
        if place and place.address:
            addresses[entry] = place.address
    return addresses


def _through(entry: str, outer: Sequence[str] | None) -> str:
    if outer is None or not entry.isdigit():
        return entry
    return outer[int(entry)] if int(entry) < len(outer) else ""


def _meant(entry: str, places: Sequence[DevicePlace], *, counted: bool) -> DevicePlace | None:
    """Return the device of an entry: a number, `card.tile`, or a name or the beginning of one."""
    if entry.isdigit() and counted:
        return places[int(entry)] if int(entry) < len(places) else None
    card, dot, _ = entry.partition(".")
    if dot and card.isdigit():
        return next((place for place in places if place.cards == int(card)), None)
    whole = [place for place in places if entry and place.name == entry]
    fits = whole or [place for place in places if "-" in entry and place.name.startswith(entry)]
    return fits[0] if len(fits) == 1 else None


def _places(
    accelerator: Accelerator, environ: Mapping[str, str], root: str
) -> Iterator[DevicePlace]:
    """Yield every entry that a mask may count, in order."""
    nth = _addresses(accelerator, root)
    for cards, device in enumerate(present.devices(accelerator, root)):
        by_order = nth[device.number] if device.number < len(nth) else ""
        place = DevicePlace(device.address or by_order, _name(accelerator, device), cards)
        for _ in range(present.parts(accelerator, device, environ)):
            yield place


def _addresses(accelerator: Accelerator, root: str) -> list[str]:
    """Return the addresses of the vendor's functions, if its device files do not lead to them."""
    if not accelerator.pci or any(files.device for files in accelerator.device_files):
        return []
    functions = (one for vendor, _ in accelerator.pci for one in pci.functions(root, vendor))
    return [one.address for one in functions if present.is_kind(accelerator, one.address, root)]


def _name(accelerator: Accelerator, device: present.Device) -> str:
    """Return the device's own number, or a KFD node's UUID as ROCm writes it."""
    if accelerator.numbered_by:
        return present.own_number(accelerator, device)
    if not os.path.isfile(device.folder):
        return ""
    unique = present.properties(sysfs.text(device.folder)).get("unique_id", 0)
    return f"GPU-{unique:016x}" if unique else ""


def _informed(
    accelerator: Accelerator, environ: Mapping[str, str], root: str
) -> tuple[tuple[DevicePlace, ...], bool]:
    """Return the GPUs that NVIDIA's driver lists, and whether CUDA numbers them in this order.

    CUDA counts the GPUs whose device files it can open: by address with
    CUDA_DEVICE_ORDER=PCI_BUS_ID, else the fastest first, which is the same order for GPUs of one
    model (CUDA programming guide, "CUDA Environment Variables").
    """
    minors = {str(device.number) for device in present.devices(accelerator, root)}
    listed = procfs.gpus(os.path.join(root, accelerator.information))
    minors -= {facts.get("Device Minor", "") for _, facts in listed if procfs.is_excluded(facts)}
    usable = [(address, facts) for address, facts in listed if facts.get("Device Minor") in minors]
    alike = len({facts.get("Model") for _, facts in usable}) == 1
    by_address = alike or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    places = tuple(DevicePlace(address, facts.get("GPU UUID", "")) for address, facts in usable)
    return places, by_address and len(places) == len(minors)
