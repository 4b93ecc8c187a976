"""Parse `--include` and `--exclude`: `NODE[:SLOT,...][@NODE...]`.

A slot that is written twice counts once. If a host is named again, its slots are added, as in
DeepSpeed's tests (tests/unit/launcher/test_run.py).
"""

from __future__ import annotations

import re
from fnmatch import filter as matching

from ..common.errors import UsageError
from ..specs.host import listing
from .hostfile import ENCLOSED
from .ranges import expand, located, quoted, show_slots, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..specs.host import Host, Slot

    Slots = tuple[Slot, ...] | None


def named(
    flag: str, text: str, hosts: Sequence[Host], source: str, aliases: Sequence[str] = ()
) -> Mapping[str, Slots]:
    """Return the hosts that the filter `text` names, with the slots of each; None for all slots.

    `aliases` are other names of the first host.

    Raises:
        UsageError: a part of the filter is malformed, or names an unknown host or slot.
    """
    others = dict.fromkeys(map(str.lower, aliases), hosts[0])
    known = others | {host.name.lower(): host for host in hosts}
    named: dict[str, Slots] = {}
    for token in text.split("@"):
        try:
            node, slots = _node_and_slots(token, known)
            for host in _matches(node, known, source):
                chosen = _resolved(host, slots)
                if host.name in named:
                    chosen = _joined(named[host.name], chosen)
                named[host.name] = chosen
        except UsageError as fault:
            raise located(fault, flag, token or text) from None
    return named


def _node_and_slots(token: str, known: Mapping[str, Host]) -> tuple[str, Slots]:
    """Split a token into node and slots; known names take precedence: IPv6 has colons, too."""
    _check_joint(token, known)
    enclosed = ENCLOSED.fullmatch(token)
    node, colon, after = token.rpartition(":")
    tail: str | None = after
    if enclosed:
        node, tail = enclosed[1], enclosed[2]
    elif token.lower() in known or not colon or (":" in node and node.lower() not in known):
        node, tail = token, None
    if not node:
        raise UsageError("expected NODE or NODE:SLOT,SLOT (join several with @)")
    return node, None if tail is None else tuple(dict.fromkeys(written(tail)))


def _check_joint(token: str, known: Mapping[str, Host]) -> None:
    first, *others = re.split(r"[,;\s]+", token)
    if any(part.partition(":")[0].lower() in known for part in others):
        meant = quoted("@".join([first, *others]))
        raise UsageError(f"hosts are joined by @, their slots by commas: {meant}")


def _matches(node: str, known: Mapping[str, Host], source: str) -> list[Host]:
    matches: list[Host] = []
    for name in expand(node):
        glob = "*" in name or "?" in name
        hits = matching(known, name.lower()) if glob else [name.lower()]
        hits = [hit for hit in hits if hit in known] or _other_names(name, known)
        if not hits:
            hosts = listing(dict.fromkeys(known.values()), name)
            raise UsageError(f"no host {quoted(name)} ({source} has {hosts})")
        matches += map(known.__getitem__, hits)
    return matches


def _other_names(name: str, known: Mapping[str, Host]) -> list[str]:
    """Return the host with the short or long form of a name, or with Slurm's name for it."""
    from .aliases import meant

    names = dict.fromkeys(host.name for host in known.values())
    return [host.lower() for host in meant([name], names).values()]


def _resolved(host: Host, slots: Slots) -> Slots:
    if slots is None or host.slots is None:
        return slots
    valid: dict[Slot, Slot] = {slot: slot for slot in host.slots}
    if all(isinstance(slot, str) for slot in host.slots):
        valid.update(enumerate(host.slots))
    else:
        # The number of slots does not tell their ids: the node looks ids up.
        valid.update((slot, slot) for slot in slots if isinstance(slot, str))
    for slot in slots:
        if slot not in valid:
            raise UsageError(f"no slot {slot} on {host.name!r} (it has {show_slots(host.slots)})")
    return tuple(dict.fromkeys(valid[slot] for slot in slots))


def _joined(first: Slots, second: Slots) -> Slots:
    """Return the slots of both: numbers in ascending order, then ids in the order written."""
    if first is None or second is None:
        return None
    both = {*first, *second}
    numbers = sorted(slot for slot in both if isinstance(slot, int))
    return (*numbers, *(slot for slot in dict.fromkeys(first + second) if isinstance(slot, str)))
