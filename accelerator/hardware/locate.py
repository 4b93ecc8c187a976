"""Where devices are: the PCI address of each entry of a mask, as far as the kernel tells."""

from __future__ import annotations

import os

from . import pci, present, procfs, sysfs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ..vendors.base import Accelerator


class Place:
    """One device.

    Attributes:
        address: of its PCI function.
        name: its UUID, or the number that it has for masks itself; "" when it has none.
        cards: how many devices come before it, whatever parts each has.
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
    """Return the addresses of the entries that are known, the others left out.

    Args:
        accelerator: whose devices they are.
        entries: as in a mask.
        outer: what an outer mask shows, among which numbers count; None without one.
        environ: what decides how a vendor's library counts.
        root: where /dev, /proc and /sys are.
    """
    if accelerator.information:
        places, counted = _informed(accelerator, environ, root)
    else:
        places, counted = tuple(_places(accelerator, environ, root)), True
    found = {}
    for entry in entries:
        name = _through(entry, outer)
        place = _meant(name, places, counted=counted and not accelerator.numbered_by)
        if place and place.address:
            found[entry] = place.address
    return found


def _through(entry: str, outer: Sequence[str] | None) -> str:
    if outer is None or not entry.isdigit():
        return entry
    return outer[int(entry)] if int(entry) < len(outer) else ""


def _meant(entry: str, places: Sequence[Place], *, counted: bool) -> Place | None:
    """The device that an entry means: by number, as `card.tile`, or by its name or a part of it."""
    if entry.isdigit() and counted:
        return places[int(entry)] if int(entry) < len(places) else None
    card, dot, _ = entry.partition(".")
    if dot and card.isdigit():
        return next((place for place in places if place.cards == int(card)), None)
    whole = [place for place in places if entry and place.name == entry]
    fits = whole or [place for place in places if "-" in entry and place.name.startswith(entry)]
    return fits[0] if len(fits) == 1 else None


def _places(accelerator: Accelerator, environ: Mapping[str, str], root: str) -> Iterator[Place]:
    """Every entry that a mask may count, in order."""
    nth = _addresses(accelerator, root)
    for cards, device in enumerate(present.devices(accelerator, root)):
        by_order = nth[device.number] if device.number < len(nth) else ""
        place = Place(device.address or by_order, _name(accelerator, device), cards)
        for _ in range(present.parts(accelerator, device, environ)):
            yield place


def _addresses(accelerator: Accelerator, root: str) -> list[str]:
    """The vendor's functions in order of address, where its device files tell none themselves."""
    if not accelerator.pci or any(files.device for files in accelerator.device_files):
        return []
    found = (one for vendor, _ in accelerator.pci for one in pci.functions(root, vendor))
    return [one.address for one in found if present.is_kind(accelerator, one.address, root)]


def _name(accelerator: Accelerator, device: present.Device) -> str:
    """The number that the device says, or a KFD node's UUID as ROCm writes it."""
    if accelerator.numbered_by:
        return present.own_number(accelerator, device)
    if not os.path.isfile(device.folder):
        return ""
    unique = present.properties(sysfs.text(device.folder)).get("unique_id", 0)
    return f"GPU-{unique:016x}" if unique else ""


def _informed(
    accelerator: Accelerator, environ: Mapping[str, str], root: str
) -> tuple[tuple[Place, ...], bool]:
    """What NVIDIA's driver tells of each GPU, and whether its numbers are sure to be their order.

    CUDA counts the GPUs whose device files it can open: by address with
    CUDA_DEVICE_ORDER=PCI_BUS_ID, else the fastest first, which is the same among equals (CUDA
    programming guide, "CUDA Environment Variables").
    """
    minors = {str(device.number) for device in present.devices(accelerator, root)}
    listed = procfs.gpus(os.path.join(root, accelerator.information))
    minors -= {facts.get("Device Minor", "") for _, facts in listed if procfs.is_excluded(facts)}
    here = [(address, facts) for address, facts in listed if facts.get("Device Minor") in minors]
    alike = len({facts.get("Model") for _, facts in here}) == 1
    by_address = alike or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    places = tuple(Place(address, facts.get("GPU UUID", "")) for address, facts in here)
    return places, by_address and len(places) == len(minors)
