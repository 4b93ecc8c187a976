"""The events that a fleet emits to the run on its nodes, always from the loop."""

from __future__ import annotations

from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ...backends.events import EngineEnded, EngineOutput
    from .node_connection import NodeConnection


NO_MESSAGE = "its node launcher exited without an error message"
"""The cause if a session has ended normally, but too early."""


class NodeConnected(NamedTuple):
    """A node launcher has a connection, and can be sent a JOB."""

    node: NodeConnection


class NodeSent(NamedTuple):
    """A node launcher has sent a frame."""

    node: NodeConnection
    kind: int
    body: bytes


class NodeDisconnected(NamedTuple):
    """The connection has ended.

    Attributes:
        reason: why, in words.
        fault: how the node violated the protocol, "" if it did not.
        direct: whether it led to the node launcher itself, and not through other programs: closed
            by the other end, its node launcher has closed it, or has died.
        lost: why the node was lost, as `NodeConnection.lost` until it is reached again.
    """

    node: NodeConnection
    reason: str
    fault: str
    direct: bool
    lost: str


class NodeSilent(NamedTuple):
    """No heartbeat has arrived for this many seconds; the connection is closed.

    Attributes:
        lost: why the node was lost, as `NodeConnection.lost` until it is reached again.
    """

    node: NodeConnection
    seconds: float
    lost: str


class NodeEnded(NamedTuple):
    """A node's session has ended; the cause is the backend's, "" for an ordinary end.

    This comes before there is a connection, or after the connection has ended.
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
