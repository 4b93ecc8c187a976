"""Which hosts and slots take part: `--include`, `--exclude`, `--num_nodes` and `--num_gpus`."""

from __future__ import annotations

from fnmatch import filter as matching

from ..errors import UsageError
from .hostfile import ENCLOSED, Host, Slot
from .ranges import MAX_SLOTS, distinct, expand, located, parse_slots, quoted, show_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Slots = tuple[Slot, ...] | None


def select(
    hosts: Sequence[Host],
    *,
    include: str = "",
    exclude: str = "",
    num_nodes: int | None = None,
    num_gpus: int | None = None,
    source: str = "the hostfile",
) -> list[Host]:
    """The hosts that take part, in the order of `hosts`, each with the slots that take part.

    A filter reads `NODE[:SLOT,...][@NODE...]`. A node may be a range (`w-[0-3]`) or a pattern
    (`w-*`), slots may be ranges (`0-3`) or device ids. Slots stay in the order in which `include`
    writes them. On a host whose slots are all device ids, a number is a place in its list.

    Args:
        hosts: All that there are.
        include: Only these; a node without slots means all of its slots.
        exclude: All but these; a node without slots means the whole node.
        num_nodes: Only the first so many hosts.
        num_gpus: Only the first so many slots of every host.
        source: Where `hosts` come from, for messages.

    Raises:
        UsageError: Two of these contradict each other, name what is not there, or leave nothing.
    """
    _refuse_contradictions(include, exclude, num_nodes, num_gpus)
    if include:
        return _included(hosts, _named("--include", include, hosts, source))
    if exclude:
        return _remaining(hosts, _named("--exclude", exclude, hosts, source), source)
    chosen = hosts if num_nodes is None else _first_hosts(hosts, num_nodes, source)
    return [host if num_gpus is None else _with_first_slots(host, num_gpus) for host in chosen]


def _refuse_contradictions(
    include: str, exclude: str, num_nodes: int | None, num_gpus: int | None
) -> None:
    filters = [flag for flag, text in (("--include", include), ("--exclude", exclude)) if text]
    counts = (("--num_nodes", num_nodes), ("--num_gpus", num_gpus))
    given = filters + [flag for flag, number in counts if number is not None]
    if filters and len(given) > 1:
        raise UsageError(f"{given[0]} cannot go together with {given[1]}; give one of them")


def _included(hosts: Sequence[Host], named: Mapping[str, Slots]) -> list[Host]:
    chosen = (host for host in hosts if host.name in named)
    return [host._replace(slots=named[host.name] or host.slots) for host in chosen]


def _remaining(hosts: Sequence[Host], named: Mapping[str, Slots], source: str) -> list[Host]:
    shrunk = (_without(host, named[host.name]) if host.name in named else host for host in hosts)
    chosen = [host for host in shrunk if host]
    if not chosen:
        raise UsageError(f"--exclude: nothing is left ({source} has {_names(hosts)})")
    return chosen


def _without(host: Host, slots: Slots) -> Host | None:
    if slots is None:
        return None
    if host.slots is None:
        raise UsageError(
            f"--exclude: how many slots {host.name!r} has is not known here; "
            f"write their number{_at(host)}, or exclude it whole"
        )
    rest = tuple(slot for slot in host.slots if slot not in slots)
    return host._replace(slots=rest) if rest else None


def _first_hosts(hosts: Sequence[Host], count: int, source: str) -> Sequence[Host]:
    if not 1 <= count <= len(hosts):
        valid = f"expected 1 to {len(hosts)} ({source} has {_names(hosts)})"
        raise UsageError(f"--num_nodes: {valid}, not {count}")
    return hosts[:count]


def _with_first_slots(host: Host, count: int) -> Host:
    if not 1 <= count <= MAX_SLOTS:
        raise UsageError(f"--num_gpus: expected 1 to {MAX_SLOTS}, not {count}")
    if host.slots is None:
        return host._replace(slots=tuple(range(count)))
    if count > len(host.slots):
        raise UsageError(
            f"--num_gpus: {count} is more than the {len(host.slots)} of {host.name!r}{_at(host)}"
        )
    return host._replace(slots=host.slots[:count])


def _named(flag: str, text: str, hosts: Sequence[Host], source: str) -> Mapping[str, Slots]:
    """The hosts that the filter `text` names, and the slots that it names of each; None for all."""
    known = {host.name: host for host in hosts}
    named: dict[str, Slots] = {}
    for token in text.split("@"):
        try:
            node, slots = _node_and_slots(token, known)
            for name in _matches(node, known, source):
                if name in named:
                    raise UsageError(f"host {name!r} is named twice")
                named[name] = _resolved(known[name], slots)
        except UsageError as fault:
            raise located(fault, flag, token or text) from None
    return named


def _node_and_slots(token: str, known: Mapping[str, Host]) -> tuple[str, Slots]:
    """The two halves of a token; the longest known name wins, as IPv6 addresses hold colons."""
    enclosed = ENCLOSED.fullmatch(token)
    node, colon, after = token.rpartition(":")
    tail: str | None = after
    if enclosed:
        node, tail = enclosed[1], enclosed[2]
    elif token in known or not colon or (":" in node and node not in known):
        node, tail = token, None
    if not node:
        raise UsageError("expected NODE or NODE:SLOT,SLOT (an @ joins several)")
    return node, None if tail is None else parse_slots(tail)


def _matches(node: str, known: Mapping[str, Host], source: str) -> list[str]:
    found: list[str] = []
    for name in expand(node):
        glob = "*" in name or "?" in name
        hits = matching(known, name) if glob else [name] if name in known else []
        if not hits:
            raise UsageError(
                f"no host {quoted(name)} ({source} has {_names(known.values(), name)})"
            )
        found += hits
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
    return distinct(valid[slot] for slot in slots)


def _names(hosts: Iterable[Host], near: str = "") -> str:
    """The names of a few hosts, or the ends of many and the name most like `near`."""
    names = [host.name for host in hosts]
    if len(names) <= 6:
        return ", ".join(names)
    import difflib

    nearest = "".join(f", nearest {n}" for n in difflib.get_close_matches(near, names, n=1))
    return f"{names[0]} .. {names[-1]}, {len(names)} hosts{nearest}"


def _at(host: Host) -> str:
    return f" ({host.where})" if host.where else ""
