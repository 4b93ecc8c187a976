"""A host and its slots: the result of every way to name hosts."""

from __future__ import annotations

from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Slot = int | str
"""A device index, or a device id such as `GPU-8932f937` or `MIG-4cf1`. Several devices of one
worker are joined by a plus, `0+1`; NO_DEVICE is the slot of a worker without a device."""

NO_DEVICE = "none"
"""The slot of a worker that has no device."""

MAX_SLOTS = 4096

WORDS_FOR_ALL = {"auto", "gpu", "cpu", "xpu"}
"""torchrun's values of --nproc_per_node that mean "as many as the node has"."""

PRIVATE = {"hpu", "mlu", "musa", "npu", "sdaa"}
"""Names of vendors whose packages register with torch as PrivateUse1; also such values."""


class Host(NamedTuple):
    """A machine that may take part.

    Attributes:
        name: the host name, or the address without brackets.
        slots: the devices in rank order; None for all that the node turns out to have.
        user: the user to log in as; None for ssh's own choice.
        port: the port of sshd; None for ssh's own choice.
        where: the place that names the host, such as `hosts:7`, for messages.
        times: the number of entries for the host, whose slots are added.
        block: the part of the network that the host is in; "" if unknown.
    """

    name: str
    slots: tuple[Slot, ...] | None = None
    user: str | None = None
    port: int | None = None
    where: str = ""
    times: int = 1
    block: str = ""


def devices_of(slot: Slot) -> tuple[Slot, ...]:
    """Return the devices of the worker with this slot."""
    if slot == NO_DEVICE:
        return ()
    if isinstance(slot, int) or "+" not in slot:
        return (slot,)
    return tuple(int(part) if part.isdigit() else part for part in slot.split("+"))


def all_devices(slots: Iterable[Slot]) -> tuple[Slot, ...]:
    """Return the devices of the workers with these slots."""
    return tuple(device for slot in slots for device in devices_of(slot))


def slot_of(devices: Sequence[Slot]) -> Slot:
    """Return the slot of a worker with these devices."""
    if len(devices) == 1:
        return devices[0]
    return "+".join(map(str, devices)) or NO_DEVICE


def listing(hosts: Iterable[Host], near: str = "") -> str:
    """Return the names of a few hosts, or the ends of many and the name most like `near`."""
    names = [host.name for host in hosts]
    if len(names) <= 6:
        return ", ".join(names)
    import difflib

    nearest = "".join(f", nearest {n}" for n in difflib.get_close_matches(near, names, n=1))
    return f"{names[0]} .. {names[-1]}, {len(names)} hosts{nearest}"


def repeats(hosts: Iterable[Host], source: str) -> list[str]:
    """Return a note for the user on hosts that are listed more than once, if any."""
    repeated = [host for host in hosts if host.times > 1]
    if not repeated:
        return []
    shown = ", ".join(
        f"{host.name} {host.times} times, {len(host.slots or ())} slots" for host in repeated[:3]
    )
    more = f", and {len(repeated) - 3} more hosts" if len(repeated) > 3 else ""
    return [f"{source} lists {shown}{more}: the slots of each host are added up"]
