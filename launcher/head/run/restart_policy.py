"""Restart policies: what a run does after a failure or a loss."""

from __future__ import annotations

import signal

from ...common.values import NamedTuple

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
        """Decides what a run does after a failure or a loss."""

        @property
        def least(self) -> int | None:
            """The fewest nodes that the run starts with; None if it needs all of them."""
            ...

        @property
        def handlers(self) -> Mapping[int, Callable[[RunNode, bytes], None]]:
            """Handlers of the frames that only nodes under this policy send."""
            ...

        @property
        def starting(self) -> bool:
            """Whether it is to be told when a worker prints something."""
            ...

        @property
        def observer(self) -> Observer | None:
            """What observes the run for it; None for nothing."""
            ...

        def on_start(self, start: AllReady, first: RunNode, probes: Mapping[RunNode, int]) -> None:
            """Handle the start: START is sent to all connected nodes.

            Args:
                start: what is started.
                first: the node of rank 0.
                probes: how many answers to PROBE each node still owes.
            """
            ...

        def on_health(self, node: RunNode, why: str) -> None:
            """Handle the outcome of the health command before a round; `why` it has failed."""
            ...

        def on_hello(self, node: RunNode, hello: Hello) -> None:
            """Handle the HELLO of a node that connects after the start."""
            ...

        def on_output(self, node: RunNode, rank: int) -> None:
            """Handle that a worker has printed something, while the policy is `starting`."""
            ...

        def on_failure(self, node: RunNode, ended: WorkerExit) -> None:
            """Handle a worker that has failed by itself: restart, or stop the run."""
            ...

        def restart(self, why: str, otherwise: GiveUp) -> None:
            """Restart all workers, which counts as a failure; give up if that is not possible."""
            ...

        def survives(self, node: RunNode) -> bool:
            """Return whether the run goes on without a lost node; changes nothing."""
            ...

        def on_loss(self, node: RunNode) -> None:
            """Handle the loss of a node that the run goes on without."""
            ...

        def await_end(self, node: RunNode, seconds: float) -> None:
            """Restart nothing before a node that is about to be lost has ended its workers.

            It has done so after so many seconds, if nobody says so before.
            """
            ...

        def on_node_end(self, node: RunNode, cause: str) -> None:
            """Handle the end of a node's session after the start; the backend gives the cause."""
            ...

        def on_done(self, node: RunNode) -> None:
            """Handle a node on which nothing is left, while the run is not being stopped.

            It may be lost already.
            """
            ...

        def outlives_engine(self) -> bool:
            """Return whether the run goes on when the engine that has started nodes ends."""
            ...

        def world_size(self, planned: int) -> int:
            """Return the number of workers for the report."""
            ...

        def close(self) -> None:
            """Start nothing more: the run is being stopped, or is over."""
            ...


BEYOND = 9 / 8
"""Of the time after which a silent node is lost, what passes until its workers are gone: it stops
them itself after 15/16 of that time without its runner, with 1/16 for their grace."""


class GiveUp(NamedTuple):
    """The end of a run for what a watch has found; as in `JobRecord.gave_up`."""

    reason: str
    code: int
    words: str
    sign: str


def give_up(run: RunState, found: GiveUp) -> None:
    """Stop a run for what a watch has found."""
    run.warn(f"{found.reason}: stopping the job")
    run.record.gave_up(found.reason, run.now, found.code, found.words, found.sign)
    run.stop(signal.SIGTERM)


def restart(run: RunState, why: str, otherwise: GiveUp) -> None:
    """Restart all workers, which counts as a failure; give up if no restart is left."""
    run.restarts.restart(why, otherwise)


def end_with(run: RunState, error: DsrunError) -> None:
    """Have a run end with this error in place of a report, once it ends."""
    run.error = error


class NoRestarts:
    """One start: the first failure or loss ends the run."""

    least: int | None = None
    starting = False
    observer: Observer | None = None

    def __init__(self, run: RunState) -> None:
        self._run, self._record = run, run.record
        self._do, self._decide = run.do, run.decide
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}

    def on_start(self, start: AllReady, first: RunNode, probes: Mapping[RunNode, int]) -> None:
        """Nothing to do."""

    def on_health(self, node: RunNode, why: str) -> None:
        """Nothing to do: no health command runs after the start."""

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Nothing to do: no node is reached again."""

    def on_output(self, node: RunNode, rank: int) -> None:
        """Nothing to do."""

    def on_failure(self, node: RunNode, ended: WorkerExit) -> None:
        """Stop the run."""
        self._record.exited(node, ended)
        self._decide(self._run.stop, signal.SIGTERM)

    def restart(self, why: str, otherwise: GiveUp) -> None:
        """Give up: there is no other round."""
        self._decide(give_up, self._run, otherwise)

    def survives(self, node: RunNode) -> bool:
        """Return False: a job needs all of its nodes."""
        return False

    def on_loss(self, node: RunNode) -> None:
        """Nothing to do: no loss is survived."""

    def await_end(self, node: RunNode, seconds: float) -> None:
        """Nothing to do: the run ends."""

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Nothing to do: the loss of the node has ended the run."""

    def on_done(self, node: RunNode) -> None:
        """End the run if all nodes are done."""
        self._decide(self._run.end_when_over)

    def outlives_engine(self) -> bool:
        """Return False: without its engine a run ends."""
        return False

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the plan."""
        return planned

    def close(self) -> None:
        """Nothing to do."""
