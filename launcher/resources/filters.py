"""The grammar of `--include` and `--exclude`: `NODE[:SLOT,...][@NODE...]`.

What is written twice counts once, and the parts of a host that is named again add up, as in
DeepSpeed's own tests (tests/unit/launcher/test_run.py).
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
    """The hosts that the filter `text` names, and the slots that it names of each; None for all.

    `aliases` are other names of the first host.

    Raises:
        UsageError: a token cannot be read, or names what is not there.
    """
    known = dict.fromkeys(aliases, hosts[0]) | {host.name: host for host in hosts}
    named: dict[str, Slots] = {}
    for token in text.split("@"):
        try:
            node, slots = _node_and_slots(token, known)
            for host in _matches(node, known, source):
                found = _resolved(host, slots)
                again = host.name in named
                named[host.name] = _joined(named[host.name], found) if again else found
        except UsageError as fault:
            raise located(fault, flag, token or text) from None
    return named


def _node_and_slots(token: str, known: Mapping[str, Host]) -> tuple[str, Slots]:
    """The two halves of a token; the longest known name wins, as IPv6 addresses hold colons."""
    _check_joint(token, known)
    enclosed = ENCLOSED.fullmatch(token)
    node, colon, after = token.rpartition(":")
    tail: str | None = after
    if enclosed:
        node, tail = enclosed[1], enclosed[2]
    elif token in known or not colon or (":" in node and node not in known):
        node, tail = token, None
    if not node:
        raise UsageError("expected NODE or NODE:SLOT,SLOT (an @ joins several)")
    return node, None if tail is None else tuple(dict.fromkeys(written(tail)))


def _check_joint(token: str, known: Mapping[str, Host]) -> None:
    first, *others = re.split(r"[,;\s]+", token)
    if any(part.partition(":")[0] in known for part in others):
        meant = quoted("@".join([first, *others]))
        raise UsageError(f"hosts are joined by @, their slots by commas: {meant}")


def _matches(node: str, known: Mapping[str, Host], source: str) -> list[Host]:
    found: list[Host] = []
    for name in expand(node):
        glob = "*" in name or "?" in name
        hits = matching(known, name) if glob else [name] if name in known else []
        if not hits:
            there = listing(dict.fromkeys(known.values()), name)
            raise UsageError(f"no host {quoted(name)} ({source} has {there})")
        found += map(known.__getitem__, hits)
    return found


def _resolved(host: Host, slots: Slots) -> Slots:
    if slots is None or host.slots is None:
        return slots
    valid: dict[Slot, Slot] = {slot: slot for slot in host.slots}
    if all(isinstance(slot, str) for slot in host.slots):
        valid.update(enumerate(host.slots))
    else:
        # A number says how many devices there are, not which: ids are looked up on the node.
        valid.update((slot, slot) for slot in slots if isinstance(slot, str))
    for slot in slots:
        if slot not in valid:
            raise UsageError(f"no slot {slot} on {host.name!r} (it has {show_slots(host.slots)})")
    return tuple(dict.fromkeys(valid[slot] for slot in slots))


def _joined(first: Slots, second: Slots) -> Slots:
    """The slots that either names; numbers in their order, as no one list gives another."""
    if first is None or second is None:
        return None
    both = {*first, *second}
    numbers = sorted(slot for slot in both if isinstance(slot, int))
    return (*numbers, *(slot for slot in dict.fromkeys(first + second) if isinstance(slot, str)))
