"""What follows from a failure or a loss: a policy decides, and the run that it is part of acts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from ...control.messages import Exit, Hello
    from .run import Run
    from .run_node import RunNode

    class RestartPolicy(Protocol):
        """Decides about rounds: nobody, the runner, or torch's rendezvous."""

        @property
        def least(self) -> int | None:
            """Nodes without which the run does not start; None for all of them."""
            ...

        @property
        def handlers(self) -> Mapping[int, Callable[[RunNode, bytes], None]]:
            """What is done with frames that only its nodes send."""
            ...

        def on_start(self) -> None:
            """Act on the start: all nodes that are there have got START."""
            ...

        def on_hello(self, node: RunNode, hello: Hello) -> None:
            """Act on the HELLO of a node that comes after the start."""
            ...

        def on_failure(self, node: RunNode, ended: Exit) -> None:
            """Act on a worker that has failed by itself."""
            ...

        def survives(self, node: RunNode) -> bool:
            """Return whether the run goes on without a node that is lost."""
            ...

        def on_loss(self, node: RunNode) -> None:
            """Act on the loss of a node that the run goes on without."""
            ...

        def on_silence(self, node: RunNode) -> None:
            """Act on a node that is about to be lost because it is silent."""
            ...

        def on_node_end(self, node: RunNode, cause: str) -> None:
            """Act on a backend's word on the end of a node's session, after the start."""
            ...

        def on_done(self, node: RunNode) -> None:
            """Act on a node of which nothing is left, while nothing is being stopped."""
            ...

        def outlives_engine(self) -> bool:
            """Return whether the run goes on without the engine that has started nodes."""
            ...

        def world_size(self, planned: int) -> int:
            """Return the number of workers for the report."""
            ...

        def close(self) -> None:
            """Start nothing any more: the run is being stopped, or is over."""
            ...


class NoRestarts:
    """One start: the first failure or loss ends the run."""

    least: int | None = None

    def __init__(self, run: Run) -> None:
        self._run = run
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}

    def on_start(self) -> None:
        """Nothing to do."""

    def on_hello(self, node: RunNode, hello: Hello) -> None:
        """Nothing to do: no node is reached again."""

    def on_failure(self, node: RunNode, ended: Exit) -> None:
        """End the run."""
        self._run.fail(node, ended)

    def survives(self, node: RunNode) -> bool:
        """Return False: half a job is none."""
        return False

    def on_loss(self, node: RunNode) -> None:
        """Nothing to do: no loss is survived."""

    def on_silence(self, node: RunNode) -> None:
        """Nothing to do: the run ends."""

    def on_node_end(self, node: RunNode, cause: str) -> None:
        """Nothing to do: the loss of the node has ended the run."""

    def on_done(self, node: RunNode) -> None:
        """Nothing to do: the run is over when all nodes are."""

    def outlives_engine(self) -> bool:
        """Return False: without its engine a run ends."""
        return False

    def world_size(self, planned: int) -> int:
        """Return the number of workers of the plan."""
        return planned

    def close(self) -> None:
        """Nothing to do."""
