"""The meeting point of the next round: an address of its first node that all others reach.

An address that a node has reached once is not probed again until one of the two is lost.
"""

from __future__ import annotations

from functools import partial

from ...common.wording import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    Probe: TypeAlias = Callable[[int, tuple[int, ...]], None]
    """Makes the second nodes try the addresses of the first."""

    Verdicts: TypeAlias = dict[int, Mapping[str, str]]
    """By node: "" for each address that it reaches, or the reason why not."""
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from ...common.loop import Timers
    from .runner_node_directory import NodeDirectory

NOT_PROBED = "not probed"


class Reachability:
    """Finds one address of a first node that all others reach.

    Attributes:
        awaited: the nodes whose answers the newest search waits for.
    """

    def __init__(self, addresses: Callable[[int], Sequence[str]], probe: Probe) -> None:
        """Begin without any answer.

        Args:
            addresses: returns those at which a node may be reached, the most likely one first.
            probe: has nodes probed.
        """
        self._addresses = addresses
        self._probe = probe
        self._verdicts: dict[int, Verdicts] = {}
        self._probes: dict[int, list[tuple[Verdicts, tuple[str, ...]]]] = {}
        self.awaited: set[int] = set()

    # -- knowledge -----------------------------------------------------------------------------

    def verified(self, first: int, node: int, address: str) -> None:
        """Record that a node reached an address of `first` at the start of the job."""
        self._verdicts.setdefault(first, {})[node] = {address: ""}

    def owes(self, node: int, answers: int) -> None:
        """Ignore the next answers of a node: they belong to probes from before the start."""
        self._probes.setdefault(node, []).extend([({}, ())] * answers)

    def moved(self, first: int) -> None:
        """Ignore future answers: the node has another port since it was probed."""
        if first in self._verdicts:
            self._verdicts[first] = dict(self._verdicts[first])

    def remove(self, node: int) -> None:
        """Forget a lost node: its network may be another when it returns."""
        self._verdicts.pop(node, None)
        for verdicts in self._verdicts.values():
            verdicts.pop(node, None)
        self._probes.pop(node, None)
        self.awaited.discard(node)

    def answered(self, node: int, verdicts: Sequence[str]) -> bool:
        """Record an answer of a node; return whether the newest search may continue.

        Raises:
            ValueError: the answer is to a probe of another number of addresses.
        """
        if not self._probes.get(node):
            return False  # it was forgotten meanwhile
        known, addresses = self._probes[node].pop(0)
        if addresses:
            if len(verdicts) != len(addresses):
                raise ValueError(f"{len(verdicts)} answers for {len(addresses)} addresses")
            known[node] = dict(zip(addresses, verdicts, strict=True))
        self.awaited.discard(node)
        return not self.awaited

    # -- the search -------------------------------------------------------------------------

    def find(self, members: Sequence[int]) -> str | None:
        """Return the address for a round, "" if no node has one, or None while nodes are probed."""
        first, *others = members
        known, addresses = self._verdicts.setdefault(first, {}), self._addresses(first)
        self._await(first, [node for node in others if node not in known])
        if self.awaited:
            return None
        for address in addresses:
            if not any(known[node].get(address, NOT_PROBED) for node in others):
                return address
        self._await(first, [node for node in others if not known[node].keys() >= {*addresses}])
        return None if self.awaited else ""

    def unreachable(self, members: Sequence[int]) -> dict[int, str]:
        """Return the nodes that do not reach the address that most nodes reach, with reasons."""
        first, *others = members
        known = self._verdicts[first]
        fails = [
            {node: why for node in others if (why := known[node][address])}
            for address in self._addresses(first)
        ]
        return {node: _reasons(known[node]) for node in min(fails, key=len)}

    def _await(self, first: int, nodes: Sequence[int]) -> None:
        """Probe each of these nodes, once its earlier probes are answered."""
        self.awaited = set(nodes)
        free = [node for node in nodes if not self._probes.get(node)]
        if free:
            known, addresses = self._verdicts[first], tuple(self._addresses(first))
            self._probes |= {node: [(known, addresses)] for node in free}
            self._probe(first, tuple(free))


def _reasons(verdicts: Mapping[str, str]) -> str:
    return "; ".join(f"{address} ({why})" for address, why in verdicts.items() if why)


PROBE = 6.0
"""Seconds for a node that is new to a round to answer a probe; a node launcher takes 5 at most."""


class MasterSelection:
    """Selects the master of a round, and gives up nodes that prevent that.

    Attributes:
        points: the results of probes so far.
        members: the nodes of the next round while some of them are probed; others wait for a later
            round.
    """

    def __init__(
        self,
        timers: Timers,
        patience: float,
        table: NodeDirectory,
        probe: Probe,
        give_up: Callable[[Mapping[int, str], AbstractSet[int]], None],
    ) -> None:
        """Wait `patience` seconds for answers.

        `give_up` gets the reason for each node to give up, and the nodes not to reach again.
        """
        self.reachability = Reachability(table.addresses, probe)
        self.members: list[int] = []
        self._timers = timers
        self._patience = patience
        self._table = table
        self._give_up = give_up
        self._isolated: set[int] = set()

    @property
    def pending(self) -> bool:
        """True while answers to probes are awaited."""
        return bool(self.members and self.reachability.awaited)

    def cancel(self) -> None:
        """Cancel this selection; the next round takes the nodes available then."""
        self.members = []

    def remove(self, node: int) -> None:
        """Forget a node that is gone."""
        self.reachability.remove(node)
        if node in self.members:
            self.cancel()

    def find(self, members: list[int], present: AbstractSet[int]) -> str:
        """Return the address for a round; "" while it is unknown, and if no node has one.

        `members` are the nodes of the next round, `present` the nodes of the current round.
        """
        address = self.reachability.find(members)
        if address is None:
            self._await_answers(members, present)
        elif not address:
            reasons = self._unreachable(members, present)
            # The second time it is no cable that was out for a moment.
            again = self._isolated & reasons.keys()
            self._isolated |= reasons.keys()
            self._give_up(reasons, again)
        return address or ""

    def _await_answers(self, members: list[int], present: AbstractSet[int]) -> None:
        """Wait for answers; for a new node's answer, at most `PROBE` seconds."""
        if self.members:
            return
        self.members = members
        new = set(members) - present if present else set()
        for seconds, nodes in ((PROBE, new), (self._patience, set(members))):
            self._timers.call_later(seconds, partial(self._on_late, members, nodes, seconds))

    def _on_late(self, members: list[int], nodes: set[int], seconds: float) -> None:
        if self.members is members:
            why = f"it did not answer a probe within {seconds:g} s"
            self._give_up(dict.fromkeys(sorted(self.reachability.awaited & nodes), why), set())

    def _unreachable(self, members: Sequence[int], present: AbstractSet[int]) -> dict[int, str]:
        """Return the nodes to give up if no address is reached by all, and why.

        These are the nodes that do not reach the first node. But if most nodes do not, or if only
        the first is new, it is the first node.
        """
        first, others = members[0], len(members) - 1
        fails = self.reachability.unreachable(members)
        new = bool(present) and first not in present
        if 2 * len(fails) > others and (others > 1 or new):
            node, why = next(iter(fails.items()))
            nodes = f"{len(fails)} of {counted(others, 'node')} cannot reach it"
            return {first: f"{nodes}; {self._table.name(node)}: {why}"}
        text = f"cannot reach {self._table.name(first)}, the first node of the round"
        return {node: f"{text}: {why}" for node, why in fails.items()}
