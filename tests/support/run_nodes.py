"""Nodes of a run without node launchers: what they are sent is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.control import frames
from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.run.run_node import RunNode
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

if TYPE_CHECKING:
    from dsrun.launcher.control.connection import Connection


class Sink:
    """What a node's connection is to those who send.

    Attributes:
        sent: (kind, body) of each frame.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []
        self.fault = ""
        self.last_received = 0.0
        self.closed = False
        self.line = None

    def send(self, frame: bytes) -> None:
        """Keep the frames."""
        assert not self.closed
        self.sent += frames.Decoder().feed(frame)

    def close(self) -> None:
        """Note the end."""
        self.closed = True


class SentNode(RunNode):
    """A node of a run, with what it is sent.

    Attributes:
        sink: its connection.
    """

    def __init__(self, connection: NodeConnection) -> None:
        super().__init__(connection, connection.origin, connection.number)
        self.sink = Sink()
        link: Connection = self.sink  # type: ignore[assignment]
        connection.open(link)

    @property
    def kinds(self) -> list[int]:
        """The kinds of the frames that it was sent."""
        return [kind for kind, _ in self.sink.sent]


def plan_of(nodes: int, slots: int = 2) -> Plan:
    """Return a plan of nodes n0, n1, ... with so many workers each."""
    hosts = [Host(f"n{at}", tuple(range(slots))) for at in range(nodes)]
    return Plan(lay_out(hosts), Program("train.py"), "ssh", None, None)


def nobody(_host: object) -> Any:
    """What adds nodes to a run that gets none."""
    raise AssertionError("nobody is added")


def sent_nodes(plan: Plan) -> list[SentNode]:
    """Return the nodes of a plan, connected."""
    nodes = [SentNode(NodeConnection(node)) for node in plan.nodes]
    for node in nodes:
        node.assign(node.node)
    return nodes
