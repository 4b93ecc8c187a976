"""A gate that a test opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.run.gate import Gates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsrun.launcher.head.run.gate import Done, GateStage
    from dsrun.launcher.head.run.run import Run
    from dsrun.launcher.head.run.run_node import RunNode


class FakeGate:
    """Holds nodes until it is told to let them pass.

    Attributes:
        handlers: the kinds of frames that it wants, none unless a test adds some.
        held: the nodes of each check, in order.
        closed: how often it was closed.
    """

    def __init__(self) -> None:
        """Hold no node yet."""
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}
        self.held: list[tuple[RunNode, ...]] = []
        self.closed = 0
        self._done: list[Done] = []
        self._handle: Callable[[Callable[[object], None]], None] = lambda call: call(None)

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Hold these nodes."""
        self.held.append(tuple(nodes))
        self._done.append(done)

    def close(self) -> None:
        """Count it."""
        self.closed += 1

    def passes(self, number: int = -1, refused: Any = None, lines: Sequence[str] = ()) -> None:
        """End the check of this number, for nodes that may go on unless they are refused."""
        self._handle(lambda _run: self._done[number](refused or {}, lines))

    def at(self, stage: GateStage) -> Callable[[Run], Gates]:
        """Return a function that makes this the only gate of a run."""

        def gates(run: Run) -> Gates:
            self._handle = run.handle
            return Gates([(stage, lambda: self)])

        return gates
