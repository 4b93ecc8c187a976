"""Nodes that come to a job that runs: lost ones that are back, and hosts that were added."""

from __future__ import annotations

from ...control import frames, messages
from ...specs.plan import Node
from ..fleet.events import NO_MESSAGE
from ..fleet.reconnector import Pauses, Reconnector
from ..fleet.unreached import UnreachedNodes
from ..run import checks
from ..run.phase import Phase
from ..run.run_node import NodeState
from .membership import Membership
from .round_events import NodeConnected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.messages import Hello
    from ..fleet.node_connection import NodeConnection
    from ..run.run import Run
    from ..run.run_node import RunNode
    from .round_events import RoundEvent
    from .rounds import Rounds

PAUSES = Pauses(first=5.0, longest=30.0)
"""Between two attempts on a node."""

SPARES = 4
"""Nodes that are accepted beyond the most that a round may have, of hosts that are added."""


class NodeAdmission:
    """Has nodes reached, and accepts those that fit the others.

    Attributes:
        membership: which hosts may take part.
    """

    def __init__(
        self, run: Run, rounds: Rounds, handle: Callable[[RoundEvent], bool], most: int
    ) -> None:
        """Begin with the nodes of a run, of which a round may have `most`.

        `handle` has the rounds handle an event, and returns its answer.
        """
        self._run = run
        self._rounds = rounds
        self._handle = handle
        self._most = most
        self._reconnector = Reconnector(
            run.loop, PAUSES, self._reach, self._is_lost, self._room, self._newcomer
        )
        self.membership = Membership(run.nodes, handle, self._reconnector, run.add, run.warn)
        self._unreached = UnreachedNodes(run.loop, lambda text: run.warn(f"{text}; trying again"))
        self._reached: set[RunNode] = set()

    def expect(self, node: RunNode) -> None:
        """Reach a node that is lost since the start."""
        self._reconnector.expect(node.connection)

    def drop(self, node: RunNode) -> None:
        """Do not reach a node any more."""
        self._reconnector.drop(node.connection)

    def close(self) -> None:
        """Reach no node any more."""
        self._reconnector.close()

    @property
    def only(self) -> bool:
        """Whether all nodes that are left were reached later than the others."""
        return all(node.over for node in self._run.nodes if node not in self._reached)

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Handle the end of a session, which may have been an attempt to reach a node again."""
        if node.lost and node.hello is None:
            if node.state is NodeState.ADDED:
                node.lose(cause or NO_MESSAGE)
                self._unreached.add(node.name, node.lost)
            self._reconnector.failed(node.connection)

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Accept a node that has come, or come back, if it fits those that are there."""
        node.answer(hello)
        problems = hello.problems or self._problems(node, hello)
        if problems and node.lost != problems[0]:
            node.lose(problems[0])
            self._run.warn(f"cannot use {node.name}: {node.lost}")
        running = self._run.phase is Phase.RUNNING
        if problems or not running or not self._handle(NodeConnected(node.number)):
            node.ask_again()
            node.connection.close(node.lost)
            self._reconnector.failed(node.connection)
            return
        word = "here" if node.state is NodeState.ADDED else "back"
        self._run.warn(f"{node.name} is {word}")
        self._accept(node, hello)

    def _problems(self, node: RunNode, hello: Hello) -> Sequence[str]:
        """Return why a node does not fit those that are there."""
        others = [one for one in self._run.nodes if one.hello and not one.over]
        hellos = {one.connection.number: one.hello for one in others if one.hello}
        nodes = [one.connection.origin for one in (*others, node)]
        problems = checks.problems(nodes, {**hellos, node.connection.number: hello})
        if problems or self._run.quick_check is None:
            return problems
        return list(filter(None, [self._run.quick_check.compare_newcomer(node, others)]))

    def _accept(self, node: RunNode, hello: Hello) -> None:
        host = node.node.host
        if host.slots is None:
            host = host._replace(slots=tuple(range(hello.slots)))
        node.admit(Node(node.node.rank, host, 0, host.slots))
        self._run.fleet.expect_beats(node.connection)
        self._reconnector.back(node.connection)
        node.send(messages.pack(frames.START, self._run.start_message(node.node, "", 0)))
        self.membership.retire()

    def _room(self) -> int:
        return self._most + SPARES - self._rounds.alive

    def _newcomer(self) -> NodeConnection | None:
        node = self.membership.next()
        return node.connection if node is not None else None

    def _is_lost(self, connection: NodeConnection) -> bool:
        return bool(self._run.node_of(connection).lost)

    def _reach(self, connection: NodeConnection) -> None:
        node = self._run.node_of(connection)
        node.forget()
        self._run.staged.drop(node)
        self._reached.add(node)
        self._run.fleet.reach(connection)
