"""Carries out the actions of a run: on its fleet, its console and this machine."""

from __future__ import annotations

import os

from . import node_frames, run_signals, run_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...specs.job import JobSpec
    from ..checks.compared_node import Outlier
    from ..fleet.fleet import NodeFleet
    from ..gates.file_lists import FileLists
    from ..gates.health import Health
    from ..output.screen import Screen
    from ..stacks.view import RankView
    from .output import RunOutput
    from .run import Handle, RunOverrides
    from .run_node import RunNode
    from .startup import AllReady
    from .stdin import Stdin
    from .workers import Workers


class RunEffects:
    """The actions of one run (`RunActions`).

    Attributes:
        ask: sends a node its JOB as soon as the node may have it.
        input_fd: the descriptor of the input that is forwarded to rank 0, if requested.
        stdin: forwards this input; None before the start.
    """

    ask: Callable[[RunNode], None]
    input_fd = 0
    stdin: Stdin | None = None
    _health: Health | None = None
    _lists: FileLists | None = None

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Screen,
        output: RunOutput,
        owner: RunOverrides,
        handle: Handle,
    ) -> None:
        """Act for a run; answers to questions are passed to `handle`."""
        self._spec, self._fleet, self._owner, self._handle = spec, fleet, owner, handle
        self._closers: list[Callable[[], object]] = []
        self.log, self.status = console.log, console.status
        self.label, self.label_node = output.label, output.label_node
        self.suspend, self.send_beats = fleet.suspend, fleet.watch

    # -- nodes ----------------------------------------------------------------------------------

    def send(self, nodes: Sequence[RunNode], frame: bytes) -> None:
        """Send these nodes a frame."""
        for node in nodes:
            node.send(frame)

    def close_line(self, node: RunNode, reason: str) -> None:
        """Close the connection to a node."""
        node.connection.close(reason)

    def expect_beats(self, node: RunNode) -> None:
        """Expect heartbeats of this node from now on."""
        self._fleet.expect_beats(node.connection)

    def reach(self, node: RunNode) -> None:
        """Start the node launcher of a lost or an added node."""
        self._fleet.reach(node.connection)

    def unreached(self, node: RunNode) -> None:
        """Tell the owner of the run that a node could not be reached again."""
        if self._owner.on_unreached is not None:
            self._owner.on_unreached(node)

    def ready(self, ready: AllReady) -> None:
        """Start the workers, unless the owner of the run does so itself."""
        if self._owner.on_ready is not None:
            self._owner.on_ready(ready)
        else:
            self._handle(run_start.start, ready)

    def forward_input(self, node: RunNode) -> None:
        """Forward standard input to this node."""
        from .stdin import Stdin

        self.stdin = Stdin(self._fleet.loop, node.send, self.input_fd)

    # -- questions ------------------------------------------------------------------------------

    def list_files(self, nodes: Sequence[RunNode], outliers: Sequence[Outlier]) -> None:
        """Find out which files differ between nodes."""
        if self._lists is None:
            from ..gates.file_lists import FileLists

            self._lists = FileLists(self._fleet, self._spec.job_id)

        def named(files: Mapping[str, list[str]]) -> None:
            self._handle(run_start.on_files, nodes, files)

        self._lists.cancel()
        self._lists.ask(nodes, outliers, named)

    def check_health(self, node: RunNode) -> None:
        """Run the health command on a node."""
        if self._health is None:
            from ..gates.health import Health

            self._health = Health(self._spec, self._fleet)
            self.close_too(self._health.close)
        self._health.check(node, lambda why: self._handle(node_frames.on_health, node, why))

    def ask_allocation(self) -> None:
        """Ask Slurm whether the job's allocation has ended."""
        from .allocation_end import ask

        def seen(end: str) -> None:
            self._handle(run_signals.on_allocation, end)

        self.close_too(ask(self._fleet.loop, os.environ, seen))

    def show_stacks(self, nodes: Sequence[RunNode], workers: Workers) -> None:
        """Print the stacks of the running ranks as soon as their nodes have sent them."""
        from ..stacks.collect import collect
        from ..stacks.show import StackText

        def show(views: Mapping[int, RankView]) -> None:
            self.log(StackText(views).text(gap="\n"), "error")

        collect(self._fleet, nodes, workers, show)

    # -- the end --------------------------------------------------------------------------------

    def close_too(self, close: Callable[[], object]) -> None:
        """Call `close` when the run is stopped or over."""
        self._closers.append(close)

    def close_services(self) -> None:
        """Stop the health command and the search for other hosts."""
        while self._closers:
            self._closers.pop()()

    def finish(self) -> None:
        """End the run: close its services and tell its owner."""
        self.close_services()
        (self._owner.on_over or self._fleet.loop.stop)()
