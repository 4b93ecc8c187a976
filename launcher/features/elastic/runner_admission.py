"""Nodes that join a running job: lost ones that are back, and hosts that were added.

The newest list of hosts, if any, decides which hosts may take part.
"""

from __future__ import annotations

from ...head.fleet.events import NO_MESSAGE
from ...head.fleet.hosts import by_cause
from ...head.run.run_node import NodeState
from ...specs.plan import Node
from ..quick_check import runner_before_start as before_start
from . import runner_round_changes as round_changes
from .runner_reconnector import Pauses, Reconnector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Loop, Timers
    from ...control.messages import Hello
    from ...head.run.run_node import RunNode
    from ...head.run.run_state import RunState
    from ...specs.host import Host
    from .runner_rounds import Rounds

CHANGED = "its new slots take effect only after it has been off the list once"
"""The warning about a host whose slots have changed while it is in the job."""


class Membership:
    """Adds new hosts, and releases the nodes of those that are no longer on the list."""

    def __init__(
        self,
        nodes: Sequence[RunNode],
        remove: Callable[[int], bool],
        reconnector: Reconnector,
        add: Callable[[Host], RunNode],
        log: Callable[[str], None],
    ) -> None:
        """Start without a list: until there is one, all nodes may take part.

        Args:
            nodes: all nodes so far, to which `add` appends.
            remove: removes a node for good, by its number, if the rounds can do without it.
            reconnector: reaches nodes.
            add: returns a new node of a host.
            log: prints a line for the user.
        """
        self._nodes = nodes
        self._remove = remove
        self._reconnector = reconnector
        self._add = add
        self._log = log
        self._listed: dict[str, Host] | None = None
        self._unlisted: list[RunNode] = []
        self._fresh: dict[str, Host] = {}

    def take(self, hosts: Sequence[Host]) -> None:
        """Use another list."""
        known = {node.name: node for node in self._nodes}
        before, self._listed = self._listed or {}, {host.name: host for host in hosts}
        self._fresh = {name: host for name, host in self._listed.items() if name not in known}
        self._unlisted = [node for node in self._nodes if node.name not in self._listed]
        for node in self._unlisted:
            self._reconnector.cancel(node)
        for name, host in self._listed.items():
            if name in known:
                self._update(known[name], host, before.get(name))
        self.retire()
        self._reconnector.advance()

    def replace(self, lost: str, host: Host) -> None:
        """Add a host in place of a lost one, which is no longer reached."""
        node = next(node for node in self._nodes if node.name == lost)
        self._reconnector.cancel(node)
        self._remove(node.number)
        self._fresh[host.name] = host
        self._reconnector.advance()

    def next(self) -> RunNode | None:
        """Return a node for the next host that was added and not reached yet, if any."""
        if not self._fresh:
            return None
        node = self._add(self._fresh.pop(next(iter(self._fresh))))
        node.await_first()
        return node

    def lost(self, node: RunNode) -> None:
        """Reach a lost node again, if its host is on the list."""
        if self._listed is None or node.name in self._listed:
            self._reconnector.expect(node)

    def gone(self, node: RunNode) -> None:
        """Handle the end of a node that was released; its host may be on the list again."""
        host = (self._listed or {}).get(node.name)
        if host is not None:
            self._bring_back(node, host)
        self._reconnector.advance()

    def retire(self) -> None:
        """Release nodes whose hosts are no longer on the list, if enough others are left.

        This is repeated whenever a node has connected: a node may be kept until it is released.
        """
        for node in sorted(self._unlisted, key=lambda one: -one.number):
            if not node.over:
                self._remove(node.number)

    def _update(self, node: RunNode, host: Host, before: Host | None) -> None:
        """Handle a host of the list that has a node already."""
        known = {
            node.connection.origin.host.slots,
            node.connection.origin.host.slots if before is None else before.slots,
        }
        if node.over:
            self._bring_back(node, host)
        elif host.slots not in known:
            self._log(f"{node.name}: {CHANGED}")

    def _bring_back(self, node: RunNode, host: Host) -> None:
        """Reach a node again whose host had been removed from the list."""
        if node.done is not None:
            node.connection.origin = node.connection.origin._replace(host=host)
            node.node = node.node._replace(host=host)
            node.await_first()
            self._reconnector.start(node)
        elif node.lost:
            self._reconnector.expect(node)


PAUSES = Pauses(first=5.0, longest=30.0)
"""Pauses between two attempts on a node."""

SPARES = 4
"""Nodes that are accepted beyond the most that a round may have, of hosts that are added."""


class NodeAdmission:
    """Has nodes reached, and accepts those that fit in with the others.

    Attributes:
        membership: the choice of hosts that may take part.
    """

    def __init__(
        self,
        run: RunState,
        rounds: Rounds,
        connected: Callable[[int], bool],
        removed: Callable[[int], bool],
        most: int,
    ) -> None:
        """Begin with the nodes of a run; a round has at most `most` of them.

        `Rounds` describes `connected` and `removed`; both take the number of a node.
        """
        self._nodes, self._run, self._log = run.nodes, run, run.warn
        self._do, self._decide = run.do, run.decide
        self._rounds, self._connected, self._most = rounds, connected, most
        self._closed = False
        self._reconnector = Reconnector(
            run.timers,
            PAUSES,
            self._reach,
            lambda node: bool(node.lost),
            self._room,
            self._newcomer,
        )
        self.membership = Membership(run.nodes, removed, self._reconnector, run.add, self._log)
        self._unreached = UnreachedNodes(
            run.timers, lambda text: self._log(f"{text}; trying again")
        )
        self._reached: set[RunNode] = set()

    def expect(self, node: RunNode) -> None:
        """Reach a node that was lost at the start."""
        self._reconnector.expect(node)

    def cancel(self, node: RunNode) -> None:
        """Stop reaching a node."""
        self._reconnector.cancel(node)

    def close(self) -> None:
        """Stop reaching nodes."""
        self._closed = True
        self._reconnector.close()

    @property
    def only(self) -> bool:
        """True if all remaining nodes were reached later than the others."""
        return all(node.over for node in self._nodes if node not in self._reached)

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Handle the end of a session, which may have been an attempt to reach a node again."""
        if node.lost and node.hello is None:
            if node.state is NodeState.ADDED:
                node.lose(cause or NO_MESSAGE)
                self._unreached.add(node.name, node.lost)
            self._reconnector.failed(node)
            self._do(self._run.act.unreached, node)

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Accept a new or returned node, if it fits the present ones."""
        node.answer(hello)
        problems = hello.problems or self._problems(node, hello)
        if problems and node.lost != problems[0]:
            node.lose(problems[0])
            self._log(f"cannot use {node.name}: {node.lost}")
        if problems or self._closed or not self._connected(node.number):
            node.ask_again()
            self._do(self._run.act.close_line, node, node.lost)
            self._reconnector.failed(node)
            return
        word = "here" if node.state is NodeState.ADDED else "back"
        self._log(f"{node.name} is {word}")
        self._accept(node, hello)

    def _problems(self, node: RunNode, hello: Hello) -> Sequence[str]:
        """Return the reasons why a node does not fit the present ones."""
        others = [one for one in self._nodes if one.hello and not one.over]
        hellos = {one.connection.number: one.hello for one in others if one.hello}
        nodes = [one.connection.origin for one in (*others, node)]
        return before_start.problems(nodes, {**hellos, node.connection.number: hello})

    def _accept(self, node: RunNode, hello: Hello) -> None:
        host = node.node.host
        if host.slots is None:
            host = host._replace(slots=tuple(range(hello.slots)))
        node.admit(Node(node.node.rank, host, 0, host.slots))
        self._reconnector.back(node)
        self._decide(round_changes.admit, self._run, node)
        self.membership.retire()

    def _room(self) -> int:
        return self._most + SPARES - self._rounds.alive

    def _newcomer(self) -> RunNode | None:
        return self.membership.next()

    def _reach(self, node: RunNode) -> None:
        fresh = node.connection.connected and node.task is None  # there, without a role so far
        node.reset()
        self._decide(self._run.staged.remove, node)
        self._reached.add(node)
        self._do(self._run.act.ask if fresh else self._run.act.reach, node)


FIRST = 0.5
"""Seconds for which failures are collected before the first line."""

SECOND = 5.0
"""Seconds from the first line to the second; each further interval is twice as long."""

LONGEST = 60.0
"""Longest interval between two lines in seconds."""


class UnreachedNodes:
    """Prints hosts that could not be reached, with the cause, at growing intervals."""

    def __init__(self, loop: Loop | Timers, log: Callable[[str], None]) -> None:
        """Start without hosts; `log` prints each line."""
        self._loop = loop
        self._log = log
        self._causes: dict[str, str] = {}
        self._quiet = True
        self._pause = SECOND

    def add(self, host: str, cause: str) -> None:
        """Add a host; a message about it follows soon."""
        self._causes[host] = cause
        if self._quiet:
            self._quiet, self._pause = False, SECOND
            self._loop.call_later(FIRST, self._report)

    def _report(self) -> None:
        self._quiet = not self._causes
        if self._causes:
            self._log(folded(self._causes))
            self._causes = {}
            self._loop.call_later(self._pause, self._report)
            self._pause = min(LONGEST, 2 * self._pause)


def folded(causes: Mapping[str, str]) -> str:
    """Return one line for these hosts, with the first of their causes."""
    lines = by_cause(causes)
    if len(lines) == 1:
        return lines[0]
    first, *_, last = causes
    return f"{len(causes)} hosts could not be reached: {first} .. {last}: {causes[first]}"
