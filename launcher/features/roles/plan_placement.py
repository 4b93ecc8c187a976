"""The placement of roles: the nodes of each, and the slots on them.

Roles that name their hosts are placed first, then those that want a number of nodes, in their
order, and then those beside another role. A role without `slots` has its nodes for itself, except
for roles beside it. Two roles share a device only if one is beside the other without `slots`. Pure,
except for names of hosts that only Slurm knows.
"""

from __future__ import annotations

from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...common.wording import counted
from ...resources.hostfile import parse_hosts
from ...resources.ranges import parse_slots, show_slots
from ...specs.host import MAX_SLOTS, all_devices, listing, slot_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...specs.host import Host, Slot
    from .plan_table import RoleTable

    Available = tuple[Slot, ...] | None


class RolePlacement(NamedTuple):
    """The requested place of a role.

    Attributes:
        table: the role.
        nodes: the number of nodes; None for all available ones.
        hosts: the named hosts, perhaps with slots; () for none.
        beside: the role whose nodes are used, or "".
        slots: these slots of each node, or this number of slots; None for all.
        workers: the number of workers on each node; None for as many as the devices allow.
        devices: the number of devices of each worker.
    """

    table: RoleTable
    nodes: int | None
    hosts: tuple[Host, ...]
    beside: str
    slots: int | tuple[Slot, ...] | None
    workers: int | None
    devices: int

    @property
    def name(self) -> str:
        """The name of the role."""
        return self.table.name

    @property
    def shares(self) -> bool:
        """True if the role uses the devices of another role."""
        return bool(self.beside) and self.slots is None


def wanted(table: RoleTable, workers: int | None) -> RolePlacement:
    """Return the requested place of a role; `workers` is the number on each node.

    Raises:
        UsageError: the request is invalid.
    """
    nodes, hosts, beside = table.get("num_nodes"), table.get("host"), table.get("beside")
    if nodes is not None and nodes < 1:
        raise table.error("num_nodes", f"expected 1 or more, not {nodes}")
    if not (hosts or beside or nodes):
        raise table.error("", "a role without nodes; give it nodes = N, hosts or beside = ROLE")
    if hosts and (nodes or beside):
        raise table.error("host", f"not with {'beside' if beside else 'nodes'}; give one of them")
    slots = _slots(table)
    if slots == 0 and not (hosts or beside):
        raise table.error(
            "slots", "0 is for a helper on named nodes; give it hosts or beside = ROLE"
        )
    if slots == 0 and table.get("devices"):
        raise table.error("devices", "not with slots 0, which is for workers without a device")
    return RolePlacement(
        table, nodes, _hosts(table, hosts), beside, slots, workers, table.get("devices") or 1
    )


def _slots(table: RoleTable) -> int | tuple[Slot, ...] | None:
    """Return the slots that a role wants: one number is how many, as in --host."""
    text = table.get("slots")
    if not text:
        return None
    try:
        return int(text) if text.isdigit() and int(text) <= MAX_SLOTS else parse_slots(text)
    except UsageError as error:
        raise table.error("slots", str(error)) from None


def _hosts(table: RoleTable, text: str | None) -> tuple[Host, ...]:
    if not text:
        return ()
    try:
        hosts = parse_hosts(text, "")
    except UsageError as error:
        raise table.error("host", str(error).removeprefix(": ")) from None
    if any(host.user is not None for host in hosts):
        raise table.error("host", "names hosts of the job, without a user")
    if any(host.slots for host in hosts) and table.get("slots"):
        raise table.error("slots", "the hosts already have slots")
    return tuple(hosts)


def place(
    places: Sequence[RolePlacement], hosts: Sequence[Host], source: str, aliases: Sequence[str] = ()
) -> dict[str, tuple[Host, ...]]:
    """Return the nodes of each role, with the slots of its workers, in the order of their ranks.

    Args:
        places: the requested place of each role.
        hosts: the nodes of the job.
        source: the source of the hosts, for errors.
        aliases: other names of the first host.

    Raises:
        UsageError: a role cannot be placed; the message names it.
    """
    placement = _Placement(hosts, source, aliases)
    for one in _in_order(places):
        placement.add(one)
    return {one.name: tuple(placement.placed[one.name]) for one in places}


def _in_order(places: Sequence[RolePlacement]) -> list[RolePlacement]:
    """Return roles in the order of their placement; a role follows the role that it is beside."""
    ordered = [one for one in places if one.hosts]
    ordered += [one for one in places if not (one.hosts or one.beside)]
    rest = [one for one in places if one.beside]
    names = [one.name for one in places]
    for one in rest:
        if one.beside == one.name:
            raise one.table.error("beside", "a role cannot be beside itself; name another one")
        if one.beside not in names:
            others = ", ".join(name for name in names if name != one.name) or "none"
            raise one.table.error("beside", f"no role {one.beside}; the others: {others}")
    while rest:
        known = {one.name for one in ordered}
        free = [one for one in rest if one.beside in known]
        if not free:
            circle = ", ".join(one.name for one in rest)
            text = f"these roles are beside each other, and none has its own nodes: {circle}"
            raise rest[0].table.error("beside", text)
        ordered += free
        rest = [one for one in rest if one not in free]
    return ordered


class _Misplaced(Exception):
    """A role cannot be placed: the option that is the reason, and an explanation."""

    def __init__(self, option: str, text: str) -> None:
        super().__init__(text)
        self.option = option


class _Placement:
    """The nodes of the job, and the parts given to roles."""

    def __init__(self, hosts: Sequence[Host], source: str, aliases: Sequence[str]) -> None:
        self._hosts = {host.name: host for host in hosts}
        self._names = {**dict.fromkeys(aliases, hosts[0].name), **{one: one for one in self._hosts}}
        self._source = source
        # By host: the role that has each device, and the one that has the whole node.
        self._users: dict[str, dict[Slot, str]] = {name: {} for name in self._hosts}
        self._owners: dict[str, str] = {}
        self.placed: dict[str, list[Host]] = {}

    def add(self, one: RolePlacement) -> None:
        """Place a role.

        Raises:
            UsageError: there is no room for the role.
        """
        try:
            nodes = [
                host._replace(slots=_of_workers(one, host, available))
                for host, available in self._nodes(one)
            ]
        except _Misplaced as misplaced:
            options = (misplaced.option, "host", "num_nodes", "beside")
            at = next(option for option in options if option in one.table.origins)
            raise one.table.error(at, str(misplaced)) from None
        self.placed[one.name] = nodes
        if not one.shares:
            for node in nodes:
                users = dict.fromkeys(all_devices(node.slots or ()), one.name)
                self._users[node.name] |= users

    def _nodes(self, one: RolePlacement) -> list[tuple[Host, Available]]:
        """Return the nodes of a role, each with the slots that it may use there."""
        if one.beside:
            return self._beside(one)
        if one.hosts:
            return [self._on_named(one, host) for host in one.hosts]
        return self._on_free(one)

    # -- ways to choose nodes ---------------------------------------------------------------------

    def _beside(self, one: RolePlacement) -> list[tuple[Host, Available]]:
        """Return the nodes of the other role, with its devices or other slots."""
        others = self.placed[one.beside]
        if (one.nodes or 0) > len(others):
            there = counted(len(others), "node")
            raise _Misplaced("num_nodes", f"{one.beside} has only {there}, not {one.nodes}")
        others = others[: one.nodes]
        if not one.shares:
            return [(self._hosts[host.name], self._pick(one, host.name)) for host in others]
        known = [(host, None if host.slots is None else all_devices(host.slots)) for host in others]
        return [(self._hosts[host.name], available) for host, available in known]

    def _on_named(self, one: RolePlacement, named: Host) -> tuple[Host, Available]:
        """Return a host of the job that a role names, with the slots that the role gets there."""
        name = self._names.get(named.name) or self._other_name(named.name)
        if not name:
            there = listing(self._hosts.values(), named.name)
            raise _Misplaced("host", f"no host {named.name!r} ({self._source} has {there})")
        if named.slots:
            one = one._replace(slots=named.slots)
        return self._give(one, name)

    def _other_name(self, name: str) -> str:
        """Return the host with this other name, or ""."""
        from ...resources.aliases import meant

        return meant([name], self._hosts).get(name, "")

    def _on_free(self, one: RolePlacement) -> list[tuple[Host, Available]]:
        """Return the first nodes that are free for a role."""
        found: list[tuple[Host, Available]] = []
        why = ""
        for name in self._hosts:
            if len(found) == one.nodes:
                break
            try:
                found.append(self._give(one, name))
            except _Misplaced as misplaced:
                why = why or str(misplaced)
        if len(found) < (one.nodes or 0):
            free = counted(len(found), "node") if found else "no node"
            have = f"{self._source} has {counted(len(self._hosts), 'node')}"
            reason = f"; {why}" if why else ""
            raise _Misplaced("num_nodes", f"{one.nodes} wanted, {free} free ({have}{reason})")
        return found

    def _give(self, one: RolePlacement, name: str) -> tuple[Host, Available]:
        if one.slots is None:
            return self._whole(one, name)
        self._check_owner(name)
        return self._hosts[name], self._pick(one, name)

    # -- one node ---------------------------------------------------------------------------------

    def _whole(self, one: RolePlacement, name: str) -> tuple[Host, Available]:
        self._check_owner(name)
        for user in self._users[name].values():
            raise _Misplaced("host", f"the slots of {name} belong to {user}; give slots, too")
        self._owners[name] = one.name
        host = self._hosts[name]
        return host, host.slots

    def _check_owner(self, name: str) -> None:
        owner = self._owners.get(name)
        if owner is not None:
            text = f"{name} is a node of {owner}; give {owner} slots, or write beside {owner}"
            raise _Misplaced("host", text)

    def _pick(self, one: RolePlacement, name: str) -> tuple[Slot, ...]:
        """Return the slots that a role gets on a node where others are, too."""
        host, users = self._hosts[name], self._users[name]
        if isinstance(one.slots, int):
            return self._first_free(name, one.slots)
        slots = one.slots or ()
        self._check_known(name)
        lacking = [slot for slot in slots if host.slots is not None and slot not in host.slots]
        if lacking:
            there = show_slots(host.slots or ())
            raise _Misplaced("slots", f"no slot {lacking[0]} on {name} (it has {there})")
        taken = {slot: users[slot] for slot in slots if slot in users}
        for user in taken.values():
            shown = show_slots([slot for slot, other in taken.items() if other == user])
            raise _Misplaced(
                "slots",
                f"slot {shown} of {name} is used by {user}, too; to share devices on purpose, use"
                f" beside {user} without slots",
            )
        return slots

    def _first_free(self, name: str, count: int) -> tuple[Slot, ...]:
        if count:
            self._check_known(name)
        host, users = self._hosts[name], self._users[name]
        slots = range(count + len(users)) if host.slots is None else host.slots
        free = [slot for slot in slots if slot not in users]
        if len(free) < count:
            raise _Misplaced("slots", f"{count} wanted, {len(free)} free on {name}")
        return tuple(free[:count])

    def _check_known(self, name: str) -> None:
        """Check that the slots of a role that has the whole node are counted."""
        owner = self._owners.get(name)
        if owner is None:
            return
        slots = next(host.slots for host in self.placed[owner] if host.name == name)
        if slots is None:
            unknown = f"the number of slots that {owner} uses on {name} is not known"
            text = f"{unknown}; give {owner} workers = N"
            raise _Misplaced("slots", text)


def _of_workers(one: RolePlacement, host: Host, available: Available) -> Available:
    """Return the slots of a role's workers on a node, taken from the available ones."""
    each = one.devices
    if available == ():
        return (slot_of(()),) * (one.workers or 1)
    if available is None:
        if one.workers is None and each > 1:
            raise _Misplaced(
                "devices", f"the number of slots of {host.name} is not known; give workers = N"
            )
        return None if one.workers is None else _groups(range(one.workers * each), each)
    there = len(available)
    workers = there // each if one.workers is None else one.workers
    if not workers or workers * each > there:
        option = "num_gpus" if one.workers else "devices"
        wanted_here = counted(max(workers, 1) * each, "slot")
        text = f"{wanted_here} wanted on {host.name}, which has only {there} for it"
        raise _Misplaced(option, text)
    if one.workers is None and there % each:
        text = (
            f"the {there} slots of {host.name} are not a multiple of it; give the number of workers"
        )
        raise _Misplaced("devices", text)
    return _groups(available[: workers * each], each)


def _groups(devices: Sequence[Slot], each: int) -> tuple[Slot, ...]:
    return tuple(slot_of(devices[at : at + each]) for at in range(0, len(devices), each))


def unused(hosts: Iterable[Host], placed: Mapping[str, Sequence[Host]]) -> list[str]:
    """Return the names of the nodes that no role uses."""
    used = {host.name for some in placed.values() for host in some}
    return [host.name for host in hosts if host.name not in used]
