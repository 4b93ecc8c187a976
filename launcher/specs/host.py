"""A host and its slots: what every way of naming hosts comes to."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Slot = int | str
"""A device index, or a device id such as `GPU-8932f937` or `MIG-4cf1`."""

MAX_SLOTS = 4096


class Host(NamedTuple):
    """A machine that may take part.

    Attributes:
        name: Its host name, or its address without brackets.
        slots: Its devices in rank order; None for as many as the node turns out to have.
        user: Whom to log in as; None for whatever ssh would use.
        port: Where its sshd listens; None for whatever ssh would use.
        where: The place that names it, such as `hosts:7`, for messages.
        times: How often it is listed; its slots are the sum of all.
    """

    name: str
    slots: tuple[Slot, ...] | None = None
    user: str | None = None
    port: int | None = None
    where: str = ""
    times: int = 1


def listing(hosts: Iterable[Host], near: str = "") -> str:
    """The names of a few hosts, or the ends of many and the name most like `near`."""
    names = [host.name for host in hosts]
    if len(names) <= 6:
        return ", ".join(names)
    import difflib

    nearest = "".join(f", nearest {n}" for n in difflib.get_close_matches(near, names, n=1))
    return f"{names[0]} .. {names[-1]}, {len(names)} hosts{nearest}"


def repeats(hosts: Iterable[Host], source: str) -> list[str]:
    """What to tell the user of hosts that are listed more than once: a line, or none."""
    found = [host for host in hosts if host.times > 1]
    if not found:
        return []
    shown = ", ".join(
        f"{host.name} {host.times} times, {len(host.slots or ())} slots" for host in found[:3]
    )
    more = f", and {len(found) - 3} hosts more" if len(found) > 3 else ""
    return [f"{source} lists {shown}{more}: the slots of a host add up"]
