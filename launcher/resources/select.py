"""Select hosts and slots by `--include`, `--exclude`, `--num_nodes` and `--num_gpus`."""

from __future__ import annotations

import os

from ..common.errors import UsageError, conflict
from ..specs.host import MAX_SLOTS, listing
from .source import HostSource, is_here, names_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..specs.host import Host, Slot
    from ..specs.host_updates import HostFilter, HostUpdates

    Slots = tuple[Slot, ...] | None


def choose(source: HostSource, filters: HostFilter) -> list[Host]:
    """Return the hosts of a source that take part.

    Raises:
        UsageError: the filters contradict each other, name unknown hosts or slots, or match none.
    """
    hosts, alone = source.hosts, is_alone(source.hosts)
    if filters.exclude and alone and hosts[0].slots is None:
        hosts = [_counted(hosts[0], filters.accelerator)]
    chosen = select(
        hosts,
        include=filters.include,
        exclude=filters.exclude,
        num_nodes=filters.num_nodes,
        num_gpus=filters.num_gpus,
        source=source.words,
        # DeepSpeed's users write `localhost` for the only machine.
        aliases=names_here() if alone else (),
    )
    if filters.include and alone and hosts[0].slots is None:
        _check_count(chosen[0], filters.accelerator)
    return chosen


def read_update(updates: HostUpdates, text: bytes) -> list[Host]:
    """Return the hosts of an updated list that take part.

    Raises:
        UsageError: the list is malformed.
    """
    from .hostfile import parse_hostfile

    return choose(HostSource(parse_hostfile(text, updates.name), updates.name), updates.hosts)


def is_alone(hosts: Sequence[Host]) -> bool:
    """Return whether the only host is this machine."""
    return len(hosts) == 1 and is_here(hosts[0])


def _counted(host: Host, accelerator: str | None) -> Host:
    """Return this machine with its devices counted, so that some can be excluded."""
    devices = _devices(accelerator)
    return host._replace(slots=tuple(range(devices))) if devices else host


def _check_count(host: Host, accelerator: str | None) -> None:
    """Check the slots that --include names on this machine: without devices they are a count.

    Raises:
        UsageError: the slots do not run from 0 to a number of workers.
    """
    slots = host.slots or ()
    wrong = [slot for slot in slots if slot not in range(len(slots))]
    if wrong and not _devices(accelerator):
        last = f"0-{len(slots) - 1}" if len(slots) > 1 else "0"
        raise UsageError(
            f"--include: no slot {wrong[0]} on {host.name!r}: it has no devices, so slots only "
            f"count its workers; for {len(slots)} write {last}, or --num_gpus {len(slots)}"
        )


def _devices(accelerator: str | None) -> int:
    """Return the number of devices of this machine.

    Raises:
        UsageError: the devices cannot be detected.
    """
    from ...accelerator import detect, vendors

    try:
        environ = {**os.environ, **vendors.named(accelerator, "--accelerator")}
        return len(detect.visible(detect.detect(environ), environ))
    except ValueError as error:
        raise UsageError(str(error)) from None


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
    """Return the hosts that take part, in the order of `hosts`, each with its slots.

    A filter has the form `NODE[:SLOT,...][@NODE...]`. A node may be a range (`w-[0-3]`) or a
    pattern (`w-*`); slots may be ranges (`0-3`) or device ids. Slots keep the order in which
    `include` names them. On a host whose slots are all device ids, a number is an index.

    Args:
        hosts: all hosts.
        include: use only these hosts; a node without slots means all its slots.
        exclude: use all but these hosts; a node without slots means the whole node.
        num_nodes: use only this number of hosts, from the first on.
        num_gpus: use only this number of slots of every host, from the first on.
        source: the source of `hosts`, for messages.
        aliases: other names that a filter may use for the first host.

    Raises:
        UsageError: two of these contradict each other, name unknown hosts or slots, or match none.
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
    flags = filters + [flag for flag, number in counts if number is not None]
    if filters and len(flags) > 1:
        raise conflict(*flags[:2])


def _included(hosts: Sequence[Host], named: Mapping[str, Slots]) -> list[Host]:
    chosen = (host for host in hosts if host.name in named)
    return [host._replace(slots=named[host.name] or host.slots) for host in chosen]


def _remaining(hosts: Sequence[Host], named: Mapping[str, Slots], source: str) -> list[Host]:
    shrunk = (_without(host, named[host.name]) if host.name in named else host for host in hosts)
    chosen = [host for host in shrunk if host]
    if not chosen:
        raise UsageError(f"--exclude: no host is left ({source} has {listing(hosts)})")
    return chosen


def _without(host: Host, slots: Slots) -> Host | None:
    if slots is None:
        return None
    if host.slots is None:
        raise UsageError(
            f"--exclude: the number of slots of {host.name!r} is not known; "
            f"give it{_at(host)}, or exclude the whole host"
        )
    rest = tuple(slot for slot in host.slots if slot not in slots)
    return host._replace(slots=rest) if rest else None


def _first_hosts(hosts: Sequence[Host], count: int, source: str) -> Sequence[Host]:
    if not 1 <= count <= len(hosts):
        most = f"1 to {len(hosts)}" if len(hosts) > 1 else "1"
        valid = f"expected {most} ({source} has {listing(hosts)})"
        raise UsageError(f"--num_nodes: {valid}, not {count}")
    return hosts[:count]


def _with_first_slots(host: Host, count: int) -> Host:
    if not 1 <= count <= MAX_SLOTS:
        raise UsageError(f"--num_gpus: expected 1 to {MAX_SLOTS}, not {count}")
    if host.slots is None:
        return host._replace(slots=tuple(range(count)))
    if count > len(host.slots):
        raise UsageError(
            f"--num_gpus: {count} is more than the {len(host.slots)} slots of "
            f"{host.name!r}{_at(host)}"
        )
    return host._replace(slots=host.slots[:count])


def _at(host: Host) -> str:
    return f" ({host.where})" if host.where else ""
