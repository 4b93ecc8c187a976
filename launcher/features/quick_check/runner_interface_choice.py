"""The addresses at which nodes try others, and the consequences for interfaces. Pure.

Nodes are numbers here: places in the sequence of their networks.
"""

from __future__ import annotations

from bisect import bisect

from ...common.records import NamedTuple
from ...head.fleet.hosts import some_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import TypeAlias

    from ...control.reach_messages import Network

GLOO, NCCL = "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"

NEIGHBOURS = 2
"""Nodes that each node dials at first."""

FEW = 8
"""If no more nodes than this seem to be reached badly, all nodes try these with all addresses."""

MANY_PEERS, FEW_PEERS = 64, 8
"""Nodes that one node dials then, and the number if there are more such nodes."""

WITHIN = "it leads back to the machine itself"
"""The reason why a loopback address is of no use, without a trial."""


class AddressTrial(NamedTuple):
    """The result of a node's trial of an address of another node."""

    by: int
    to: int
    address: str


if TYPE_CHECKING:
    Verdicts: TypeAlias = Mapping[tuple[int, str], str]
    """For each address of a node that was tried, "" or why some node does not reach it."""


class InterfaceChoice(NamedTuple):
    """The interface found for a node whose default does not work.

    Attributes:
        variables: variables for its workers; {} if none of its addresses works.
        address: a default that is not reached.
        why: the reason, in words.
    """

    node: int
    variables: dict[str, str]
    address: str
    why: str


def defaults(network: Network) -> dict[str, tuple[str, ...]]:
    """Return the addresses that libraries use by default, by the variable that would choose one."""
    addresses = dict(network.interfaces)
    by_nccl = tuple(addresses[name] for name in network.nccl if name in addresses)
    found = {GLOO: (network.gloo,) if network.gloo else (), NCCL: by_nccl}
    return {variable: used for variable, used in found.items() if used}


def first_trials(networks: Sequence[Network]) -> list[AddressTrial]:
    """Return the trials of the defaults: each node dials its neighbours in a ring."""
    return _trials(
        networks,
        lambda by: [(by + far) % len(networks) for far in range(1, NEIGHBOURS + 1)],
        _default_addresses,
    )


def more_trials(networks: Sequence[Network], bad: Collection[int]) -> list[AddressTrial]:
    """Return the trials of all addresses, between the bad nodes and the others."""
    limit = MANY_PEERS if len(bad) <= FEW else FEW_PEERS

    size, all_bad, ordered = len(networks), frozenset(bad), sorted(bad)

    def peers(by: int) -> list[int]:
        """Return the next ones behind a node, as in a ring: all nodes, or the bad ones."""
        if by in all_bad:
            return [(by + far) % size for far in range(1, min(size, limit + 1))]
        first = bisect(ordered, by)
        ring = range(first, first + min(limit, len(ordered)))
        return [ordered[at % len(ordered)] for at in ring]

    return _trials(networks, peers, _all_addresses)


def newcomer_trials(networks: Sequence[Network]) -> list[AddressTrial]:
    """Return the trials of the defaults of the first node, which comes to a job that runs."""
    return _trials(networks[: NEIGHBOURS + 1], _the_first, _default_addresses)


def more_newcomer_trials(networks: Sequence[Network], _bad: Collection[int]) -> list[AddressTrial]:
    """Return the trials of all addresses of the first node."""
    return _trials(networks[: FEW_PEERS + 1], _the_first, _all_addresses)


def _the_first(by: int) -> Sequence[int]:
    return [0] if by else []


def _default_addresses(network: Network) -> set[str]:
    return {address for used in defaults(network).values() for address in used}


def _all_addresses(network: Network) -> set[str]:
    return {address for _, address in network.interfaces} | ({network.gloo} - {""})


def _trials(
    networks: Sequence[Network],
    peers: Callable[[int], Sequence[int]],
    addresses: Callable[[Network], Collection[str]],
) -> list[AddressTrial]:
    return [
        AddressTrial(by, to, address)
        for by in range(len(networks))
        for to in dict.fromkeys(peers(by))
        if to != by
        for address in sorted(addresses(networks[to]))
        if not _loopback(address)
    ]


def _loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def bad(networks: Sequence[Network], verdicts: Verdicts) -> set[int]:
    """Return the nodes whose defaults are not reached by all that have tried."""
    return {
        node
        for node, network in enumerate(networks)
        for used in defaults(network).values()
        for address in used
        if _fault(node, address, verdicts)
    }


def choices(networks: Sequence[Network], verdicts: Verdicts) -> list[InterfaceChoice]:
    """Return the interfaces for the nodes whose defaults do not work."""
    found = []
    for node, network in enumerate(networks):
        faults = {
            variable: (address, why)
            for variable, used in defaults(network).items()
            for address in used
            if (why := _fault(node, address, verdicts))
        }
        if faults:
            names = _working(node, network, verdicts)
            address, why = next(iter(faults.values()))
            variables = {one: _value(one, names, network) for one in faults} if names else {}
            found.append(InterfaceChoice(node, variables, address, why))
    return found


def _working(node: int, network: Network, verdicts: Verdicts) -> list[str]:
    """Return the interfaces of a node that every other node reaches, if it has tried."""
    return [name for name, address in network.interfaces if verdicts.get((node, address)) == ""]


def _value(variable: str, working: Sequence[str], network: Network) -> str:
    """Return the value of a variable; with `=`, NCCL takes only interfaces of exactly that name."""
    if variable == GLOO:
        return working[0]
    usual = [name for name in network.nccl if name in working]
    return "=" + ",".join(usual or working[:1])


def _fault(node: int, address: str, verdicts: Verdicts) -> str:
    """Return why an address of a node is not reached, "" if it is, or was not tried."""
    return WITHIN if _loopback(address) else verdicts.get((node, address), "")


def words(names: Sequence[str], found: Sequence[InterfaceChoice]) -> list[str]:
    """Return lines about variables that are set, and about defaults that do not work."""
    helped = [one for one in found if one.variables]
    helpless = [one for one in found if not one.variables]
    lines = []
    if helped:
        by_value: dict[str, list[str]] = {}
        for one in helped:
            values = " ".join(f"{name}={value}" for name, value in one.variables.items())
            by_value.setdefault(values, []).append(names[one.node])
        set_ = "; ".join(f"{values} on {some_of(nodes)}" for values, nodes in by_value.items())
        lines.append(f"{_problem(names, helped)}; set for the workers: {set_}")
    if helpless:
        lines.append(
            f"{_problem(names, helpless)}, nor any other address there: gloo and NCCL may "
            "hang; open all ports between the nodes, or set GLOO_SOCKET_IFNAME and "
            "NCCL_SOCKET_IFNAME"
        )
    return lines


def _problem(names: Sequence[str], found: Sequence[InterfaceChoice]) -> str:
    first = found[0]
    nodes = some_of([names[one.node] for one in found])
    example = f"{first.address} of {names[first.node]}: {first.why}"
    return f"other nodes cannot reach the default network address of {nodes} ({example})"
