"""Which hosts and slots take part: `--include`, `--exclude`, `--num_nodes` and `--num_gpus`."""

from __future__ import annotations

import os

from ..common.errors import UsageError, conflict
from ..specs.host import MAX_SLOTS, listing
from .source import Source, is_here, names_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..specs.host import Host, Slot
    from ..specs.host_updates import HostFilter, HostUpdates

    Slots = tuple[Slot, ...] | None


def choose(found: Source, which: HostFilter) -> list[Host]:
    """Return the hosts of a source that take part.

    Raises:
        UsageError: the filters contradict each other, name what is not there, or leave nothing.
    """
    hosts, alone = found.hosts, is_alone(found.hosts)
    if which.exclude and alone and hosts[0].slots is None:
        hosts = [_counted(hosts[0], which.accelerator)]
    return select(
        hosts,
        include=which.include,
        exclude=which.exclude,
        num_nodes=which.num_nodes,
        num_gpus=which.num_gpus,
        source=found.words,
        # The lines of DeepSpeed's users have `localhost` wherever there is one machine.
        aliases=names_here() if alone else (),
    )


def read_update(updates: HostUpdates, text: bytes) -> list[Host]:
    """Return the hosts that a new text of a job's list names, as far as they take part.

    Raises:
        UsageError: it cannot be understood.
    """
    from .hostfile import parse_hostfile

    return choose(Source(parse_hostfile(text, updates.name), updates.name), updates.hosts)


def is_alone(hosts: Sequence[Host]) -> bool:
    """Return whether the only host is this machine."""
    return len(hosts) == 1 and is_here(hosts[0])


def _counted(host: Host, accelerator: str | None) -> Host:
    """Return this machine with its devices counted, so that some can be taken away."""
    from ...accelerator import detect

    try:
        environ = {**os.environ, **detect.named(accelerator, "--accelerator")}
        devices = detect.visible(detect.detect(environ), environ)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return host._replace(slots=tuple(range(len(devices)))) if devices else host


def select(
    hosts: Sequence[Host],
    *,
    include: str = "",
    exclude: str = "",
    num_nodes: int | None = None,
    num_gpus: int | None = None,
    source: str = "the hostfile",
    aliases: Sequence[str] = (),
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
        aliases: What else a filter may call the first host.

    Raises:
        UsageError: Two of these contradict each other, name what is not there, or leave nothing.
    """
    _refuse_contradictions(include, exclude, num_nodes, num_gpus)
    if include or exclude:
        from .filters import named

        if include:
            return _included(hosts, named("--include", include, hosts, source, aliases))
        return _remaining(hosts, named("--exclude", exclude, hosts, source, aliases), source)
    chosen = hosts if num_nodes is None else _first_hosts(hosts, num_nodes, source)
    return [host if num_gpus is None else _with_first_slots(host, num_gpus) for host in chosen]


def _refuse_contradictions(
    include: str, exclude: str, num_nodes: int | None, num_gpus: int | None
) -> None:
    filters = [flag for flag, text in (("--include", include), ("--exclude", exclude)) if text]
    counts = (("--num_nodes", num_nodes), ("--num_gpus", num_gpus))
    given = filters + [flag for flag, number in counts if number is not None]
    if filters and len(given) > 1:
        raise conflict(*given[:2])


def _included(hosts: Sequence[Host], named: Mapping[str, Slots]) -> list[Host]:
    chosen = (host for host in hosts if host.name in named)
    return [host._replace(slots=named[host.name] or host.slots) for host in chosen]


def _remaining(hosts: Sequence[Host], named: Mapping[str, Slots], source: str) -> list[Host]:
    shrunk = (_without(host, named[host.name]) if host.name in named else host for host in hosts)
    chosen = [host for host in shrunk if host]
    if not chosen:
        raise UsageError(f"--exclude: nothing is left ({source} has {listing(hosts)})")
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
        valid = f"expected 1 to {len(hosts)} ({source} has {listing(hosts)})"
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


def _at(host: Host) -> str:
    return f" ({host.where})" if host.where else ""
