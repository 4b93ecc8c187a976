"""Restart policies: the reaction of a run to a failure or a loss."""

from __future__ import annotations

import signal

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from ...common.errors import DsrunError
    from ...control.messages import Hello, WorkerExit
    from .events import Observer
    from .run_node import RunNode
    from .run_state import RunState
    from .startup import AllReady

    class RestartPolicy(Protocol):
        """Decides how a run reacts to a failure or a loss."""

        @property
        def least(self) -> int | None:
            """The smallest number of nodes to start with; None if all are needed."""
            ...

        @property
        def handlers(self) -> Mapping[int, Callable[[RunNode, bytes], None]]:
            """Handlers of the frames that only nodes under this policy send."""
            ...

        @property
        def starting(self) -> bool:
            """True while the policy needs to know which ranks print output."""
            ...

        @property
        def observer(self) -> Observer | None:
            """The policy's own observer of the run; None if it needs none."""
            ...

        def on_start(self, start: AllReady, first: RunNode, probes: Mapping[RunNode, int]) -> None:
            """Handle the start: START is being sent to all connected nodes.

            Args:
                start: the settled plan, and the master's address and port.
                first: the node of rank 0.
                probes: the number of answers to PROBE that each node still owes.
            """
            ...

        def on_hello(self, node: RunNode, hello: Hello) -> None:
            """Handle the HELLO of a node that connects after the start."""
            ...

        def on_output(self, node: RunNode, rank: int) -> None:
            """Handle output of a worker while the policy is `starting`."""
            ...

        def on_failure(self, node: RunNode, ended: WorkerExit) -> None:
            """Handle a worker that has failed on its own: restart, or stop the run."""
            ...

        def restart(self, why: str, otherwise: GiveUp) -> None:
            """Restart all workers, counted as a failure; give up if no restart is possible."""
            ...

        def survives(self, node: RunNode) -> bool:
            """Return whether the run would continue without this lost node; change nothing."""
            ...

        def on_loss(self, node: RunNode) -> None:
            """Handle the loss of a node that the run continues without."""
            ...

        def await_end(self, node: RunNode, seconds: float) -> None:
            """Restart nothing until a node that is about to be lost has ended its workers.

            If no report comes, assume that they have ended after this number of seconds.
            """
            ...

        def on_node_end(self, node: RunNode, cause: str) -> None:
            """Handle the end of a node's session after the start, with the backend's cause."""
            ...

        def on_done(self, node: RunNode) -> None:
            """Handle a node with no process of the job left, while the run is not being stopped.

            The node may already be lost.
            """
            ...

        def outlives_engine(self) -> bool:
            """Return whether the run continues when the engine that started the nodes ends."""
            ...

        def world_size(self, planned: int) -> int:
            """Return the number of workers for the report."""
            ...

        def close(self) -> None:
            """Start nothing more: the run is being stopped, or is over."""
            ...


BEYOND = 9 / 8
"""Time until the workers of a silent node are gone, as a multiple of the heartbeat timeout. The
node stops them itself after 15/16 of the timeout without its runner; 1/16 is for their grace."""


class GiveUp(NamedTuple):
    """The reason to end a run because of a finding of a watch; fields as in `JobRecord.gave_up`."""

    reason: str
    code: int
    words: str
    sign: str


def stop_for(run: RunState, found: GiveUp) -> None:
    """Stop a run because of a finding of a watch."""
    run.warn(f"{found.reason}: stopping the job")
    run.record.gave_up(found.reason, run.now, found.code, found.words, found.sign)
    run.stop(signal.SIGTERM)


def restart(run: RunState, why: str, otherwise: GiveUp) -> None:
    """Restart all workers, counted as a failure; give up if no restart is left."""
    run.restarts.restart(why, otherwise)


def report_error(run: RunState, error: DsrunError) -> None:
    """Report this error in place of the usual report once the run ends."""
    run.error = error


class NoRestarts:
    """One start only: the first failure or loss ends the run."""

    least: int | None = None
    starting = False
    observer: Observer | None = None

    def __init__(self, run: RunState) -> None:
        self._run, self._record = run, run.record
        self._do, self._decide = run.do, run.decide
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}

    def on_start(self, start: AllReady, first: RunNode, probes: Mapping[RunNode, int]) -> None:
        """Do nothing."""

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Do nothing: no node is reached again."""

    def on_output(self, node: RunNode, rank: int) -> None:
        """Do nothing."""

    def on_failure(self, node: RunNode, ended: WorkerExit) -> None:
        """Stop the run."""
        self._record.exited(node, ended)
        self._decide(self._run.stop, signal.SIGTERM)

    def restart(self, why: str, otherwise: GiveUp) -> None:
        """Give up: there is no other round."""
        self._decide(stop_for, self._run, otherwise)

    def survives(self, node: RunNode) -> bool:
        """Return False: the job needs all its nodes."""
        return False

    def on_loss(self, node: RunNode) -> None:
        """Do nothing: no loss is survived."""

    def await_end(self, node: RunNode, seconds: float) -> None:
        """Do nothing: the run ends."""

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Do nothing: the loss of the node has ended the run."""

    def on_done(self, node: RunNode) -> None:
        """End the run if all nodes are done."""
        self._decide(self._run.finish_if_over)

    def outlives_engine(self) -> bool:
        """Return False: the run ends with its engine."""
        return False

    def world_size(self, planned: int) -> int:
        """Return the number of workers in the plan."""
        return planned

    def close(self) -> None:
        """Do nothing."""
