"""The nodes of a hold: facts, losses, attempts to reach them again, and their return."""

from __future__ import annotations

from ...common.errors import NodeError, UsageError
from ...common.wording import counted
from ...head.fleet.events import NodeConnected, NodeDisconnected, NodeEnded, NodeSilent
from ...head.fleet.hosts import by_cause, some_of
from ...specs.host import all_devices
from ...specs.plan import lay_out
from ..elastic.runner_reconnector import Pauses, Reconnector
from .runner_survey import Survey

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...common.errors import DsrunError
    from ...common.loop import Loop
    from ...head.fleet.events import FleetEvent
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.output.console import Console
    from ...head.run.run_node import RunNode
    from ...specs.hold import HoldSpec
    from ...specs.host import Host
    from ...specs.plan import Plan
    from .runner_survey import SurveyedNode

LEFT_BEHIND = "its node launcher still had workers of an earlier run"
"""The reason why the hold ends a connection after a run that left workers behind."""


class HeldNodes:
    """The nodes of a hold.

    Attributes:
        facts: the survey of each node, by host name.
    """

    def __init__(self, spec: HoldSpec, fleet: NodeFleet, log: Callable[[str, str], None]) -> None:
        """Create the nodes without facts; `log` prints a message, given its text and level."""
        self.facts: dict[str, SurveyedNode] = {}
        self._spec = spec
        self._fleet = fleet
        self._log = log
        self._nodes = {node.name: node for node in fleet.nodes.values()}
        self._keeper = NodeKeeper(fleet.loop, self._reach, lambda text: log(text, "warning"))
        self._first: Survey | None = None

    def watch(self, on_missing: Callable[[], None]) -> None:
        """Call a function when an unused node is lost, and after each failed attempt."""
        self._keeper.on_missing = on_missing

    # -- the beginning and the end ------------------------------------------------------------

    def start(self, console: Console, on_over: Callable[[], None]) -> None:
        """Survey all nodes as they connect; `on_over` is called when the survey is over."""
        self._fleet.watch()  # nodes that answer early hear of this process while others start
        self._first = Survey(self._spec.job, self._fleet, console, on_over)
        self._first.start()

    def cancel(self, number: int) -> None:
        """Cancel the survey because of this signal."""
        if self._first is not None:
            self._first.cancel(number)

    def keep(self) -> DsrunError | None:
        """Keep the surveyed nodes; return the reason if that is not possible, else None."""
        assert self._first is not None
        if self._first.error is not None:
            return self._first.error
        self.facts = dict(self._first.facts)
        self._first = None
        self._fleet.on_idle = self._keeper.on_event
        self.reconnect()
        return None

    def close(self) -> None:
        """Stop looking for lost nodes."""
        self._keeper.close()

    # -- queries ----------------------------------------------------------------------------

    @property
    def hosts(self) -> list[Host]:
        """The hosts in order, with their slots."""
        known = [(node.origin.host, self.facts.get(name)) for name, node in self._nodes.items()]
        return [host._replace(slots=facts.slots) if facts else host for host, facts in known]

    def lost(self, host: str) -> str:
        """Return why a host is lost; "" if it is not."""
        return self._keeper.reasons.get(self._nodes[host], "")

    def check_known(self, names: Sequence[str]) -> None:
        """Check that these hosts are held.

        Raises:
            UsageError: a host is not held.
        """
        unknown = [name for name in names if name not in self._nodes]
        if unknown:
            held = some_of(list(self._nodes))
            raise UsageError(f"{some_of(unknown)}: not held by {self._spec.name}, which has {held}")

    def connections(self, names: Sequence[str]) -> list[NodeConnection]:
        """Return the connections of these hosts.

        Raises:
            UsageError: a host is not held.
            NodeError: a host is lost at present.
        """
        self.check_known(names)
        missing = {name: why for name in names if (why := self.lost(name))}
        if missing:
            raise NodeError("\n".join(f"{line}; looking for it" for line in by_cause(missing)))
        return [self._nodes[name] for name in names]

    def check(self, plan: Plan) -> None:
        """Check that a plan uses only held nodes that are connected, and only their slots.

        Raises:
            UsageError: a host, or one of its slots, is not held.
            NodeError: a host is lost at present.
        """
        self.connections([node.host.name for node in plan.nodes])
        for node in plan.nodes:
            have = self.facts[node.host.name].slots
            lacking = [slot for slot in all_devices(node.slots or ()) if slot not in have]
            if lacking or not node.slots:
                some = ", ".join(map(str, lacking or ["none"]))
                held = ", ".join(map(str, have))
                raise UsageError(f"{node.host.name}: no slot {some}; it holds {held}")

    # -- lost nodes ---------------------------------------------------------------------------

    def recover(self, nodes: Iterable[RunNode]) -> None:
        """Disconnect nodes on which a run left workers, and look for all lost nodes."""
        for node in nodes:
            if node.connection.connected and node.done is None:
                self._fleet.isolate(node.connection, LEFT_BEHIND)
        self.reconnect()

    def reconnect(self) -> None:
        """Look for all lost nodes that no run uses."""
        for node in self._nodes.values():
            if not node.connected and node.on_event is None:
                self._keeper.lost(node)

    def _reach(self, node: NodeConnection) -> None:
        """Start a lost node, and survey it."""
        plan = self._spec.job.plan._replace(nodes=lay_out([node.origin.host]))

        def over() -> None:
            self._on_reached(node, survey.facts, survey.error)

        from ..detached.runner_console import DetachedConsole

        muted = DetachedConsole(None, "critical", lambda _: None)
        survey = Survey(self._spec.job._replace(plan=plan), self._fleet, muted, over)
        node.try_again()
        survey.start()
        self._fleet.reach(node)

    def _on_reached(
        self, node: NodeConnection, facts: Mapping[str, SurveyedNode], error: DsrunError | None
    ) -> None:
        if error is not None or not node.connected:
            reason = str(error).rpartition("\n")[2].strip() if error else node.lost
            node.close(reason)
            self._keeper.failed(node, reason.removeprefix(f"{node.name}: "))
            return
        changed = facts[node.name].slots != self.facts[node.name].slots
        self.facts.update(facts)
        self._keeper.back(node)
        if changed:
            slots = counted(len(facts[node.name].slots), "slot")
            self._log(f"{node.name} has {slots} now", "warning")


PAUSES = Pauses(first=2.0, longest=60.0)
"""Pauses between two attempts to reach a node."""


class NodeKeeper:
    """Reconnects lost nodes that no run uses; a run reconnects its own.

    Attributes:
        reasons: the reason of each loss, by node.
        on_missing: called when a node is lost, and after each failed attempt.
    """

    def __init__(
        self, loop: Loop, reach: Callable[[NodeConnection], None], log: Callable[[str], None]
    ) -> None:
        """Create a keeper without lost nodes.

        Args:
            loop: runs the timers.
            reach: starts an attempt; the outcome is reported to `back` or `failed`.
            log: prints a line for the user.
        """
        self._log = log
        self.on_missing: Callable[[], None] = _nothing
        self.reasons: dict[NodeConnection, str] = {}
        is_lost = self.reasons.__contains__
        self._reconnector = Reconnector(loop, PAUSES, reach, is_lost)

    def close(self) -> None:
        """Start no more attempts."""
        self._reconnector.close()

    def on_event(self, event: FleetEvent) -> None:
        """Handle an event of a node that no run uses."""
        match event:
            case NodeDisconnected(node) | NodeSilent(node):
                self.lost(node)
            case NodeEnded(node, cause) if node in self.reasons and cause:
                self.reasons[node] = cause
            case NodeConnected(node):
                # A run that has ended since made this attempt: survey the node.
                self.lost(node)

    def lost(self, node: NodeConnection) -> None:
        """Start to look for a lost node, unless that is being done."""
        if node in self.reasons:
            return
        self.reasons[node] = node.lost or "its connection was lost"
        self._reconnector.expect(node)
        self.on_missing()

    def back(self, node: NodeConnection) -> None:
        """Handle a node that was reached."""
        if self.reasons.pop(node, None) is not None:
            self._log(f"{node.name} is back")
        self._reconnector.back(node)

    def failed(self, node: NodeConnection, reason: str) -> None:
        """Handle a failed attempt."""
        self.reasons[node] = reason
        self._reconnector.failed(node)
        self.on_missing()


def _nothing() -> None:
    """Do nothing."""
