"""The addresses and ports of the workers of each role, for the workers of all roles."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...control import frames, messages
from ...control.role_messages import RolePeers
from ...specs.plan import LOCALHOST
from ...specs.role_words import Peers
from ..quick_check.runner_before_start import master_candidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ...head.run.run_node import RunNode


class RoleNode(NamedTuple):
    """A node of a role.

    Attributes:
        host: the name of the host, as the user wrote it.
        candidates: the addresses at which others may reach the host, best first.
        ports: the ports that are reserved for the workers on the host.
    """

    host: str
    candidates: tuple[str, ...]
    ports: tuple[int, ...]


class Directory:
    """The known nodes of all roles.

    Attributes:
        places: the nodes of each role in the order of their ranks, by the name of the role.
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self.places: dict[str, tuple[RoleNode, ...]] = {}
        self._alone = len({*hosts}) == 1
        self._proven: dict[tuple[str, str], str] = {}

    def update(self, role: str, known: Iterable[RunNode]) -> list[str]:
        """Replace the nodes of a role; return a text for each node whose ports have changed."""
        before = dict(self.ports(role))
        nodes = sorted((node for node in known if not node.over), key=lambda one: one.node.rank)
        places = tuple(self._place(node) for node in nodes if node.hello)
        if places:
            self.places[role] = places
        moved = [one for one in places if before.get(one.host, one.ports) != one.ports]
        return [f"{role}: its former port on {_listed(one, before[one.host])}" for one in moved]

    def _place(self, node: RunNode) -> RoleNode:
        hello = node.hello
        assert hello is not None
        candidates = (LOCALHOST,) if self._alone else master_candidates(node.node, hello)
        return RoleNode(node.name, candidates, hello.ports)

    def prove(self, role: str, answered: Mapping[str, Sequence[int]]) -> None:
        """Record the numbers of the addresses that answered, by host; the first one is used."""
        for place in self.places.get(role, ()):
            numbers = answered.get(place.host, ())
            if numbers:
                self._proven[role, place.host] = place.candidates[numbers[0]]

    def ports(self, role: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Return the ports of a role by host, as in `JobSpec.former_ports`."""
        return tuple((place.host, place.ports) for place in self.places.get(role, ()))

    def frame(self) -> bytes:
        """Return the frame PEERS, which sends a node the places of all roles."""
        return messages.pack(frames.PEERS, RolePeers(self.peers()))

    def peers(self) -> dict[str, Peers]:
        """Return the addresses and ports of each role, for workers."""
        return {
            role: Peers(
                tuple(self._proven.get((role, one.host), one.candidates[0]) for one in places),
                tuple(one.ports[0] for one in places if one.ports),
            )
            for role, places in self.places.items()
        }


def _listed(place: RoleNode, former: Sequence[int]) -> str:
    changed = [(old, new) for old, new in zip(former, place.ports, strict=False) if old != new]
    return ", ".join(f"{place.host} is taken: using {new} instead of {old}" for old, new in changed)
