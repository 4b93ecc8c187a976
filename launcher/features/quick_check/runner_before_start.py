"""Checks across all nodes before anything starts. Pure."""

from __future__ import annotations

from ...head.fleet.hosts import grouped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ...control.messages import Hello
    from ...specs.plan import Node


def problems(nodes: Sequence[Node], hellos: Mapping[int, Hello]) -> list[str]:
    """Return every reason why these nodes cannot run the job together, a line each."""
    return [*_reported(nodes, hellos), *_duplicates(nodes, hellos), *_mixed(nodes, hellos)]


def _reported(nodes: Sequence[Node], hellos: Mapping[int, Hello]) -> list[str]:
    """Return the problems that the nodes have reported themselves, equal ones in one line."""
    return grouped((n.host.name, text) for n in nodes for text in hellos[n.rank].problems)


def _duplicates(nodes: Sequence[Node], hellos: Mapping[int, Hello]) -> list[str]:
    """Return machines that are listed twice: they would get more workers than they have slots."""
    first: dict[str, str] = {}
    lines = []
    for node in nodes:
        name = node.host.name
        other = first.setdefault(hellos[node.rank].machine, name)
        if other != name:
            where = f" ({node.host.where})" if node.host.where else ""
            lines.append(
                f"{name}{where}: the same machine as {other}; list it once, with all its slots"
            )
    return lines


def _mixed(nodes: Sequence[Node], hellos: Mapping[int, Hello]) -> list[str]:
    """Return a line if accelerators differ: one process group cannot span several kinds."""
    kinds: dict[str, list[str]] = {}
    for node in nodes:
        kinds.setdefault(hellos[node.rank].accelerator, []).append(node.host.name)
    if len(kinds) < 2:
        return []
    listed = "; ".join(f"{kind}: {', '.join(names[:5])}" for kind, names in kinds.items())
    return [
        f"the hosts have different accelerators ({listed}); select hosts of one kind with --include"
    ]


def master_candidates(node: Node, hello: Hello, given: str | None = None) -> tuple[str, ...]:
    """Return the addresses of node 0 to try, in the order of preference.

    An address that the user gave is the only candidate. Other nodes cannot use a loopback address.
    """
    if given:
        return (given,)
    written = () if _loopback(node.host.name) else (node.host.name,)
    return tuple(dict.fromkeys([*written, *hello.addresses, hello.hostname]))


def _loopback(name: str) -> bool:
    return name == "localhost" or name.startswith("127.") or name == "::1"


def choose_master(
    candidates: Sequence[str], verdicts: Mapping[str, Sequence[str]], port: int
) -> tuple[str, list[str]]:
    """Return the first address that every node reaches, or else the reasons, one line per node.

    Args:
        candidates: addresses of node 0.
        verdicts: for each other host and each candidate, "" or why it cannot be reached.
        port: for the message.
    """
    for at, address in enumerate(candidates):
        if not any(reasons[at] for reasons in verdicts.values()):
            return address, []
    return "", [
        f"{host}: cannot reach the master at "
        + "; ".join(
            f"{address}:{port} ({reason})"
            for address, reason in zip(candidates, reasons, strict=True)
        )
        for host, reasons in verdicts.items()
        if all(reasons)
    ] or [f"no address of the first host can be reached from every node: {', '.join(candidates)}"]
