"""Asks the nodes of a role whether only workers of the role listen on its ports there."""

from __future__ import annotations

from itertools import count

from ...control import frames, messages
from ...control.role_messages import Ports, PortsAsk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection


class PortChecks:
    """The unanswered questions of one job.

    A node that finds another user's program on such a port does not answer, but stops its workers.
    """

    def __init__(self, fleet: NodeFleet) -> None:
        self._numbers = count(1)
        self._open: dict[int, tuple[set[NodeConnection], Callable[[], None]]] = {}
        fleet.services[frames.PORTS] = self._on_answer

    def ask(
        self, nodes: Collection[NodeConnection], wanted: Collection[str], then: Callable[[], None]
    ) -> Callable[[], None]:
        """Ask nodes; return the function that cancels the question.

        Args:
            nodes: the nodes.
            wanted: the names of the ports on which workers must listen before a node answers.
            then: called once all nodes have answered.
        """
        number = next(self._numbers)
        self._open[number] = {*nodes}, then
        frame = messages.pack(frames.PORTS_ASK, PortsAsk(number, tuple(wanted)))
        for node in nodes:
            node.send(frame)
        return lambda: self._remove(number)

    def _remove(self, number: int) -> None:
        self._open.pop(number, None)

    def _on_answer(self, node: NodeConnection, body: bytes) -> None:
        """Count an answer; ignore one that is late or unexpected."""
        number = messages.unpack(Ports, body).id
        if number not in self._open or node not in self._open[number][0]:
            return
        nodes, then = self._open[number]
        nodes.remove(node)
        if not nodes:
            self._remove(number)
            then()
