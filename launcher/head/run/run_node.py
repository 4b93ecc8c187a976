"""The state of a node in one run."""

from __future__ import annotations

from enum import Enum

from ...common import system
from ...common.errors import UsageError
from ...control import frames
from ...specs.plan import lay_out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ...control.messages import Done, Hello, NodeBindings, NodeJob
    from ...specs.plan import Node, Plan
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection

OVERDRAFT = 1 << 20
"""Bytes of output allowed beyond the credit: a node with any credit reads a whole block."""

NOT_REACHED = "not reached yet"
"""The reason to leave out a node whose host has just been added."""


class NodeState(Enum):
    """The states of a node in a run.

    Attributes:
        STARTING: its HELLO is still missing.
        READY: it has sent HELLO, and no worker runs there.
        RUNNING: it was sent START or ROUND, so that workers may run there.
        UNUSABLE: it cannot take part in the start.
        DONE: no process of the job is left there.
        LOST: it is gone, or was left out of the start; it may be reached again.
        ADDED: its host was added to the list, and has not been reached yet.
    """

    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    UNUSABLE = "unusable"
    DONE = "done"
    LOST = "lost"
    ADDED = "added"


_ABSENT = {NodeState.LOST, NodeState.ADDED}
_OVER = {NodeState.DONE, *_ABSENT}


class FrameLimits:
    """Limits on a node's frames: its own ranks, one end for each, output within its credit.

    Attributes:
        unprinted: bytes of output that have arrived and wait to be printed.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        """Allow no rank yet; `send` sends a frame to the node."""
        self.unprinted = self._owed = 0
        self._send = send
        self._ranks: set[int] = set()
        self._ends = 0

    def assign(self, ranks: Iterable[int]) -> None:
        """Allow these ranks as well, and one more end for each."""
        self._ranks.update(ranks)
        self._ends = 0

    def check_rank(self, rank: int) -> None:
        """Check that a rank is, or was, on this node: frames of an earlier round may come late.

        Raises:
            BadFrame: the rank never was on this node.
        """
        if rank not in self._ranks:
            raise frames.BadFrame(f"rank {rank} is not on this node")

    def check_end(self, rank: int) -> None:
        """Check that a rank of this node can have ended, in this round or the previous one.

        Raises:
            BadFrame: the node has reported too many ends.
        """
        self.check_rank(rank)
        self._ends += 1
        if self._ends > 2 * len(self._ranks):
            raise frames.BadFrame(f"{self._ends} exits of {len(self._ranks)} workers")

    def on_output(self, size: int, window: int) -> None:
        """Count output that has arrived.

        Raises:
            BadFrame: the output exceeds the credit.
        """
        self.unprinted += size
        if self.unprinted > window + OVERDRAFT:
            raise frames.BadFrame(f"{self.unprinted} bytes of output, but credit for {window}")

    def on_printed(self, size: int, window: int) -> None:
        """Count printed output; grant new credit a quarter of a window at a time."""
        self.unprinted -= size
        self._owed += size
        if self._owed * 4 >= window:
            self._send(frames.pack_credit(frames.CREDIT, self._owed))
            self._owed = 0


class RunNode:
    """A node of a run, as the runner knows it.

    Attributes:
        number: the index among the nodes of the run; never changes.
        node: the place in the plan, or in the current round of an elastic job.
        state: the current state; only the methods below change it.
        reason: why the node is UNUSABLE, LOST or ADDED; else "".
        task: the latest JOB; None before the first.
        hello: the answer to this JOB; None before it, and while the node is being reached again.
        change_job: changes the next JOB for this node, set by a gate; None for no change.
        latest: the latest HELLO, accepted or not; None before the first.
        done: the node's report of its end; a lost node may have sent one, too.
        verdicts: for each address of the master, "" or why the node cannot reach it.
        left: a message about processes that may still run on a lost node, or "".
        asked: the time of sending JOB, on the loop's clock.
        passed_at: the time of last passing the gates of `GateStage.NODE`, on the loop's clock; None
            if the node must pass them again.
        ahead: the seconds that the node's wall clock is ahead of this machine's, at least and at
            most; None if unknown.
        begun: whether the present node launcher has been sent START.
        cleaned_up: whether the guard has reported that no process is left.
        limits: limits on the node's frames.
        busy: whether a gate checks it, so that the limits of the start do not apply.
        left_out: whether the start continued without the node: a HELLO comes too late.
    """

    def __init__(self, connection: NodeConnection, node: Node, number: int) -> None:
        self.connection = connection
        self.number = number
        self.node = node
        self.state = NodeState.STARTING
        self.reason = ""
        self.task: NodeJob | None = None
        self.change_job: Callable[[NodeJob], NodeJob] | None = None
        self.hello: Hello | None = None
        self.latest: Hello | None = None
        self.verdicts: Sequence[str] = ()
        self.done: Done | None = None
        self.bound: NodeBindings | None = None
        self.left = ""
        self.begun = self.cleaned_up = self.busy = self.left_out = False
        self.asked = 0.0
        self.passed_at: float | None = None
        self.ahead: tuple[float, float] | None = None
        self.limits = FrameLimits(connection.send)

    @property
    def name(self) -> str:
        """The host's name, as the user wrote it."""
        return self.node.host.name

    @property
    def settled(self) -> bool:
        """True once it is certain whether the node can take part in the start."""
        return self.state is not NodeState.STARTING

    @property
    def over(self) -> bool:
        """True if the node's part of the job has ended, as far as the runner can tell."""
        return self.state in _OVER

    @property
    def ended(self) -> bool:
        """True if the node or its guard has reported that no process of the job is left there.

        A restarted node launcher reports only on the workers that it started itself.
        """
        return self.begun and bool(self.done or self.cleaned_up)

    @property
    def lost(self) -> str:
        """The reason why the node is absent after the start; "" if it is present."""
        return self.reason if self.state in _ABSENT else ""

    # -- its state --------------------------------------------------------------------------

    def answer(self, hello: Hello) -> None:
        """Store the node's HELLO. A lost node is READY only once it is admitted."""
        self.hello = hello
        if self.state is NodeState.STARTING:
            self.state = NodeState.READY

    def ask_again(self) -> None:
        """Forget the node's HELLO: it must answer again, or cannot take part."""
        self.hello = None
        if self.state is NodeState.READY:
            self.state = NodeState.STARTING

    def fail(self, cause: str) -> None:
        """Record that the node cannot take part in the start."""
        self.state, self.reason = NodeState.UNUSABLE, cause

    def start(self) -> None:
        """Record that the node is being sent a frame that makes it start workers."""
        self.state, self.begun = NodeState.RUNNING, True

    def lose(self, reason: str) -> None:
        """Record that the node is gone."""
        self.state, self.reason = NodeState.LOST, reason

    def exclude(self, cause: str) -> None:
        """Record that the start continues without the node; its HELLO may be on the way."""
        self.lose(cause)
        self.left_out = self.connection.connected

    def finish(self, done: Done) -> None:
        """Record that no process is left on the node; a lost node stays lost."""
        self.done = done
        if self.state not in _ABSENT:
            self.state = NodeState.DONE

    def await_first(self) -> None:
        """Record that the node of a newly added host is being reached for the first time."""
        self.state, self.reason = NodeState.ADDED, NOT_REACHED

    def admit(self, node: Node) -> None:
        """Record that the node is back, or there for the first time, at this place."""
        self.node = node
        self.state, self.reason, self.left = NodeState.READY, "", ""

    # -- its place and its frames -----------------------------------------------------------

    def assign(self, node: Node) -> None:
        """Set the node's place in the job, or in another round."""
        self.node = node
        self.limits.assign(node.ranks)

    def reset(self) -> None:
        """Forget the node's former state: its node launcher is being started again.

        The message in `left` is kept until the former node launcher's processes are certainly gone.
        """
        if self.ended:
            self.left = ""
        self.hello = self.latest = self.done = self.bound = None
        self.begun = self.cleaned_up = self.busy = self.left_out = False
        self.limits.unprinted = 0
        if self.state not in _ABSENT:
            self.state = NodeState.STARTING

    def read_wall(self, wall: float, elapsed: float) -> None:
        """Estimate how far the node's clock is ahead, from a reading at most `elapsed` s old."""
        difference = wall - system.time()
        self.ahead = difference, difference + elapsed

    def send(self, frame: bytes) -> None:
        """Send a frame, if the node is connected."""
        self.connection.send(frame)


def assigned(plan: Plan, nodes: Sequence[RunNode]) -> Plan:
    """Return a plan of these nodes alone, in this order, and assign each node its place."""
    plan = plan._replace(nodes=lay_out([one.node.host for one in nodes]))
    for one, node in zip(nodes, plan.nodes, strict=True):
        one.assign(node)
    return plan


def members(plan: Plan, fleet: NodeFleet, entry: tuple[str, ...] = ()) -> list[RunNode]:
    """Return the nodes of a plan that the fleet has; for some jobs that is only one of them.

    `entry` is as in `NodeFleet.find`.

    Raises:
        UsageError: the fleet has none of these nodes.
    """
    known = [(at, node) for node in plan.nodes if (at := fleet.find(node, entry))]
    if not known:
        names = ", ".join(node.host.name for node in plan.nodes)
        raise UsageError(f"{names}: not among the connected nodes: {fleet.names}")
    return [RunNode(at, node, number) for number, (at, node) in enumerate(known)]
