"""The events that a fleet emits to the run on its nodes, always from the loop."""

from __future__ import annotations

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ...backends.events import EngineEnded, EngineOutput
    from .node_connection import NodeConnection


NO_MESSAGE = "its node launcher exited without an error message"
"""The cause when a session has ended normally, but too early."""


class NodeConnected(NamedTuple):
    """A node launcher is connected, and can be sent a JOB."""

    node: NodeConnection


class NodeSent(NamedTuple):
    """A node launcher has sent a frame."""

    node: NodeConnection
    kind: int
    body: bytes


class NodeDisconnected(NamedTuple):
    """The connection to a node has ended.

    Attributes:
        reason: why it ended, in words.
        fault: the node's violation of the protocol; "" if there was none.
        direct: whether the connection led to the node launcher itself, without other programs
            between; if so, the node launcher closed it or died.
        lost: the reason of the loss, kept in `NodeConnection.lost` until the node is reached again.
    """

    node: NodeConnection
    reason: str
    fault: str
    direct: bool
    lost: str


class NodeSilent(NamedTuple):
    """No heartbeat has arrived for this number of seconds; the connection is closed.

    Attributes:
        lost: the reason of the loss, kept in `NodeConnection.lost` until the node is reached again.
    """

    node: NodeConnection
    seconds: float
    lost: str


class NodeEnded(NamedTuple):
    """A node's session has ended; the cause is the backend's, "" for an ordinary end.

    This event precedes or follows the connection.
    """

    node: NodeConnection
    cause: str


if TYPE_CHECKING:
    FleetEvent: TypeAlias = (
        NodeConnected
        | NodeSent
        | NodeDisconnected
        | NodeSilent
        | NodeEnded
        | EngineEnded
        | EngineOutput
    )
