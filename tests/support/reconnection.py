"""A job whose nodes are reached by a test: who is tried, and who answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.elastic.runner_admission import PAUSES, Membership
from dsrun.launcher.features.elastic.runner_reconnector import AT_ONCE, PACE, Reconnector
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.run.run_node import RunNode
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Node

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Sequence


class Job:
    """A job with room for some nodes, and hosts that may or may not be reached.

    Attributes:
        dead: hosts that cannot be reached, at once.
        begun: every attempt, with its time.
        trying: attempts that neither failed nor got through yet.
    """

    def __init__(self, room: int, *there: str, slots: tuple[int, ...] = (0,)) -> None:
        self.clock = Clock()
        self.room = room
        self.dead: set[str] = set()
        self.begun: list[tuple[float, str]] = []
        self.trying: dict[str, RunNode] = {}
        self.said: list[str] = []
        self.peers: list[RunNode] = []
        self.alive: set[str] = set(there)
        for name in there:
            self.add(Host(name, slots))
        self.returns = Reconnector(
            self.clock.loop,
            PAUSES,
            self.reach,
            lambda peer: bool(peer.lost),
            self.left,
            lambda: self.roster.next(),  # noqa: PLW0108 - made below
        )
        self.roster = Membership(self.peers, self.remove, self.returns, self.add, self.said.append)

    def remove(self, number: int) -> bool:
        self.alive.discard(self.peers[number].name)
        return True

    def left(self) -> int:
        return self.room - len(self.alive)

    def add(self, host: Host) -> RunNode:
        node = Node(len(self.peers), host, None, host.slots)
        self.peers.append(RunNode(NodeConnection(node), node, node.rank))
        return self.peers[-1]

    def reach(self, peer: RunNode) -> None:
        self.begun.append((self.clock.now, peer.name))
        self.trying[peer.name] = peer
        if peer.name in self.dead:
            self.fail(peer.name)

    def fail(self, name: str) -> None:
        self.returns.failed(self.trying.pop(name))

    def come(self, name: str) -> None:
        peer = self.trying.pop(name)
        peer.admit(peer.node)
        self.alive.add(name)
        self.returns.back(peer)

    def lose(self, name: str) -> None:
        (peer,) = [one for one in self.peers if one.name == name]
        self.alive.discard(name)
        peer.lose("gone")
        self.roster.lost(peer)

    def take(self, names: Sequence[str]) -> None:
        """Have another list, and time for as many attempts as it may begin at once."""
        self.roster.take([Host(name, (0,)) for name in names])
        self.go(4 * AT_ONCE * PACE)

    def go(self, seconds: float) -> None:
        """Let time pass, step by step."""
        for _ in range(round(seconds / PACE)):
            self.clock.go(PACE)

    def names(self) -> list[str]:
        return [name for _, name in self.begun]


def hosts(count: int) -> list[str]:
    return [f"x{number}" for number in range(count)]
