"""The gates of a run: features that hold nodes back at some stage until something is done."""

from __future__ import annotations

from enum import Enum
from itertools import chain

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol, TypeAlias

    from .run_node import RunNode

    Done: TypeAlias = Callable[[Mapping[RunNode, str], Sequence[str]], None]

    class Gate(Protocol):
        """Holds nodes of a run back.

        But for `GateStage.JOB`, all calls are made within a step of the run: here `run.state` has
        `send`, `warn` and `timers`, and `run.state.do` postpones other actions to the end of the
        step. What happens elsewhere gets into a step by `run.handle`.
        """

        @property
        def handlers(self) -> Mapping[int, Callable[[RunNode, bytes], None]]:
            """Handlers of the frames that only nodes at this gate send."""
            ...

        def check(self, nodes: Sequence[RunNode], done: Done) -> None:
            """Check nodes.

            A check of any of these nodes that is still under way ends without a call.

            Args:
                nodes: connected nodes: all nodes of the start, or one. Once the run has started,
                    the node joins the nodes of `Run.view` that are not `over`.
                done: called once, in this step or a later one, with the reasons for nodes that may
                    not continue, and with these reasons in lines for the user; () for lines made of
                    the reasons.
            """
            ...

        def close(self) -> None:
            """Stop checking, and call nothing more."""
            ...


class GateStage(Enum):
    """The stages at which nodes wait for gates, in the order of a start.

    Attributes:
        JOB: one node, before JOB is sent to it; a gate may set `RunNode.change_job`.
        NODE: one node, after its HELLO (`RunNode.latest`), and before each round.
        START: all nodes of the start, before their plan is settled.
        MASTER: all nodes of the start, while they try the addresses of the master.

    A node that comes after the start passes JOB, NODE, MASTER and START.
    """

    JOB = "job"
    NODE = "node"
    START = "start"
    MASTER = "master"


class Gates:
    """The gates of one run.

    Attributes:
        stages: the stages that have gates.
    """

    def __init__(self, doors: Sequence[tuple[GateStage, Callable[[], Gate]]] = ()) -> None:
        """Make no gate yet; the function beside its stage does so."""
        self._doors, self.stages = doors, frozenset(stage for stage, _ in doors)
        self._made: dict[GateStage, list[Gate]] = {}

    def open(self, *stages: GateStage) -> None:
        """Import and make the gates of some stages, unless they are made already."""
        for stage in stages:
            if stage not in self._made:
                self._made[stage] = [make() for at, make in self._doors if at is stage]

    def check(self, stages: Sequence[GateStage], nodes: Sequence[RunNode], done: Done) -> None:
        """Check nodes by one gate after another, until one of them refuses a node."""
        self.open(*stages)
        gates = chain.from_iterable(self._made[stage] for stage in stages)

        def go_on(refused: Mapping[RunNode, str], lines: Sequence[str]) -> None:
            gate = None if refused else next(gates, None)
            if gate is None:
                done(refused, lines)
            else:
                gate.check(nodes, go_on)

        go_on({}, ())

    def on_frame(self, node: RunNode, kind: int, body: bytes) -> None:
        """Pass a frame to the gate that handles its kind.

        Raises:
            BadFrame: no gate does, or it does not expect the frame now.
        """
        for gate in chain.from_iterable(self._made.values()):
            if kind in gate.handlers:
                gate.handlers[kind](node, body)
                return
        raise frames.BadFrame("not expected in this job")

    def close(self) -> None:
        """Close all gates."""
        for gate in chain.from_iterable(self._made.values()):
            gate.close()
