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
"""Bytes of output beyond what was granted: a node reads a whole block while it has any credit."""

NOT_REACHED = "not reached yet"
"""Why a node takes no part whose host has just been added."""


class NodeState(Enum):
    """What a node does in a run.

    Attributes:
        STARTING: it has not answered its JOB with HELLO yet.
        READY: it has, and no worker runs there.
        RUNNING: workers may run there: it was sent START, or a round.
        UNUSABLE: it cannot take part, as is known before the start.
        DONE: nothing is left on it.
        LOST: it is gone, or was left out of the start; it may be reached again.
        ADDED: its host was added to the list, and it has not been reached yet.
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
    """What a node may send: frames of its own ranks, one end each, output within its credit.

    Attributes:
        unprinted: bytes of its output that have arrived and wait to be printed.
    """

    def __init__(self, send: Callable[[bytes], None]) -> None:
        """Allow no rank yet; `send` sends the node a frame."""
        self.unprinted = self._owed = 0
        self._send = send
        self._ranks: set[int] = set()
        self._ends = 0

    def assign(self, ranks: Iterable[int]) -> None:
        """Allow these ranks as well, each of which may end once more."""
        self._ranks.update(ranks)
        self._ends = 0

    def check_rank(self, rank: int) -> None:
        """Check that a rank is on this node; frames of an earlier round may come late.

        Raises:
            BadFrame: it never was.
        """
        if rank not in self._ranks:
            raise frames.BadFrame(f"rank {rank} is not on this node")

    def check_end(self, rank: int) -> None:
        """Check that a rank of this node, or of the previous round here, can have ended.

        Raises:
            BadFrame: it cannot.
        """
        self.check_rank(rank)
        self._ends += 1
        if self._ends > 2 * len(self._ranks):
            raise frames.BadFrame(f"{self._ends} exits of {len(self._ranks)} workers")

    def on_output(self, size: int, window: int) -> None:
        """Count output that has arrived.

        Raises:
            BadFrame: it exceeds the credit.
        """
        self.unprinted += size
        if self.unprinted > window + OVERDRAFT:
            raise frames.BadFrame(f"{self.unprinted} bytes of output, but credit for {window}")

    def on_printed(self, size: int, window: int) -> None:
        """Count output that was printed; grant new credit a quarter of a window at a time."""
        self.unprinted -= size
        self._owed += size
        if self._owed * 4 >= window:
            self._send(frames.pack_count(frames.CREDIT, self._owed))
            self._owed = 0


class RunNode:
    """What a run knows of one of its nodes.

    Attributes:
        connection: to its node launcher.
        number: its index among the nodes of the run; it never changes.
        node: its place in the plan, or in the current round of an elastic job.
        state: what it does; the methods below alone change it.
        reason: why it is UNUSABLE, LOST or not reached yet, else "".
        task: its newest JOB; None before the first.
        hello: its answer to that; None before, and while it is reached again.
        done: what it has said of its end; also a lost node may have said it.
        verdicts: for each address of the master, "" or why it cannot be reached.
        left: what may still be running there, in words, if it was lost and its end was not seen.
        asked: when JOB was sent, on the loop's clock.
        passed_at: when it has passed the health command, on the loop's clock; None if it has to.
        ahead: seconds by which its wall clock is ahead of this machine's, at least and at most;
            None if not known.
        begun: whether its present node launcher was told to begin workers.
        cleaned_up: whether its guard has reported that nothing is left.
        limits: what it may send.
        busy: whether something with a time limit of its own runs there before it is ready, so that
            the limits of the start do not count.
        left_out: whether the start went on without it, so that its answer to JOB comes too late.
    """

    def __init__(self, connection: NodeConnection, node: Node, number: int) -> None:
        self.connection = connection
        self.number = number
        self.node = node
        self.state = NodeState.STARTING
        self.reason = ""
        self.task: NodeJob | None = None
        self.hello: Hello | None = None
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
        """Whether it is known if it can take part in the start."""
        return self.state is not NodeState.STARTING

    @property
    def over(self) -> bool:
        """Whether its part of the job has ended, as far as is known."""
        return self.state in _OVER

    @property
    def ended(self) -> bool:
        """Whether it, or its guard, has said that nothing is left of what has begun there.

        A node launcher that was started again says so only of what has begun since.
        """
        return self.begun and bool(self.done or self.cleaned_up)

    @property
    def lost(self) -> str:
        """Why it is not there after the start, "" if it is."""
        return self.reason if self.state in _ABSENT else ""

    # -- its state --------------------------------------------------------------------------

    def answer(self, hello: Hello) -> None:
        """Note its HELLO. A lost node is READY only once it is admitted."""
        self.hello = hello
        if self.state is NodeState.STARTING:
            self.state = NodeState.READY

    def ask_again(self) -> None:
        """Forget its HELLO: another one is expected, or it cannot take part."""
        self.hello = None
        if self.state is NodeState.READY:
            self.state = NodeState.STARTING

    def fail(self, cause: str) -> None:
        """Note that it cannot take part in the start."""
        self.state, self.reason = NodeState.UNUSABLE, cause

    def begin(self) -> None:
        """Note that it is sent a frame with which its workers begin."""
        self.state, self.begun = NodeState.RUNNING, True

    def lose(self, reason: str) -> None:
        """Note that it is gone."""
        self.state, self.reason = NodeState.LOST, reason

    def leave_out(self, cause: str) -> None:
        """Note that the start goes on without it; its answer to JOB may be on its way."""
        self.lose(cause)
        self.left_out = self.connection.connected

    def end(self, done: Done) -> None:
        """Note that nothing is left on it; a lost node stays lost."""
        self.done = done
        if self.state not in _ABSENT:
            self.state = NodeState.DONE

    def await_first(self) -> None:
        """Note that it is to be reached for the first time since its host was added."""
        self.state, self.reason = NodeState.ADDED, NOT_REACHED

    def admit(self, node: Node) -> None:
        """Note that it is back, or there for the first time, at this place."""
        self.node = node
        self.state, self.reason, self.left = NodeState.READY, "", ""

    # -- its place and its frames -----------------------------------------------------------

    def assign(self, node: Node) -> None:
        """Set its place in the job, or in another round of it."""
        self.node = node
        self.limits.assign(node.ranks)

    def forget(self) -> None:
        """Reset it: its node launcher is started again.

        What may be left of the former one is known once it is there.
        """
        if self.ended:
            self.left = ""
        self.hello = self.done = self.bound = None
        self.begun = self.cleaned_up = self.busy = self.left_out = False
        self.limits.unprinted = 0
        if self.state not in _ABSENT:
            self.state = NodeState.STARTING

    def read_wall(self, wall: float, elapsed: float) -> None:
        """Note how far its wall clock is ahead, from a time within the last `elapsed` seconds."""
        difference = wall - system.time()
        self.ahead = difference, difference + elapsed

    def send(self, frame: bytes) -> None:
        """Send a frame, if there is a connection."""
        self.connection.send(frame)


def assigned(plan: Plan, nodes: Sequence[RunNode]) -> Plan:
    """Return a plan of these nodes alone, in this order, and assign each its place in it."""
    plan = plan._replace(nodes=lay_out([one.node.host for one in nodes]))
    for one, node in zip(nodes, plan.nodes, strict=True):
        one.assign(node)
    return plan


def members(plan: Plan, fleet: NodeFleet) -> list[RunNode]:
    """Return the nodes of a plan that are in the fleet; some jobs have only one of theirs in it.

    Raises:
        UsageError: the fleet has none of them.
    """
    known = [(at, node) for node in plan.nodes if (at := fleet.find(node))]
    if not known:
        names = ", ".join(node.host.name for node in plan.nodes)
        raise UsageError(f"{names}: not among the connected nodes: {fleet.names}")
    return [RunNode(at, node, number) for number, (at, node) in enumerate(known)]
