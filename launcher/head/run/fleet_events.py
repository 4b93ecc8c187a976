"""How a run handles the events of its fleet."""

from __future__ import annotations

import signal

from ...backends.events import EngineEnded, EngineOutput
from ...common.errors import SWEPT
from ...control.stream import CLOSED
from ..fleet.events import (
    NO_MESSAGE,
    NodeConnected,
    NodeDisconnected,
    NodeEnded,
    NodeSent,
    NodeSilent,
)
from .node_frames import NodeFrames
from .restart_policy import BEYOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..fleet.events import FleetEvent
    from .run import Run
    from .run_node import RunNode


class FleetEvents:
    """Handles every event for one run."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._frames = NodeFrames(run)

    def on_event(self, event: FleetEvent) -> None:
        """Handle an event of a node, or of the engine that has started the nodes."""
        node_of = self._run.node_of
        match event:
            case NodeSent(connection, kind, body):
                self._frames.on_frame(node_of(connection), kind, body)
            case NodeConnected(connection):
                self._run.ask(node_of(connection))
            case NodeDisconnected(connection, reason, fault):
                self._on_disconnect(node_of(connection), reason, fault)
            case NodeSilent(connection):
                self._on_silence(node_of(connection))
            case NodeEnded(connection, cause):
                self._on_node_end(node_of(connection), cause)
            case EngineOutput(text):
                self._run.startup.show(text)
            case EngineEnded():
                self._on_engine_end(event)

    def _on_disconnect(self, node: RunNode, reason: str, fault: str) -> None:
        """Lose the node; before HELLO wait for its backend's cause, unless it sent bad frames."""
        run = self._run
        if run.ending:
            return
        if run.started and not node.over:
            # It may live, and end its workers only once it misses its runner.
            knows = reason == CLOSED and run.fleet.dialled
            seconds = (BEYOND - knows) * run.lease
            if reason != CLOSED:  # else its session has ended there, and its workers end at once
                run.record.outliving[node.name] = seconds
            run.restarts.await_end(node, seconds)
            run.lose(node, node.connection.lost, explained=bool(fault))
        elif not run.started and fault:
            run.fail_start(node, fault)
        elif not run.started and node.hello:
            run.fail_start(node, f"its node launcher disconnected before the start ({reason})")

    def _on_silence(self, node: RunNode) -> None:
        run = self._run
        if not run.started:
            run.fail_start(node, node.connection.lost)
        elif not node.over:
            seconds = (BEYOND - 1) * run.lease
            run.record.outliving[node.name] = seconds
            run.restarts.await_end(node, seconds)
            run.lose(node, node.connection.lost)

    def _on_node_end(self, node: RunNode, cause: str) -> None:
        run = self._run
        if not run.started:
            run.fail_start(node, cause or NO_MESSAGE)
            return
        node.cleaned_up |= SWEPT in cause
        run.record.explain(node.name, cause)
        if run.ending:
            run.end_if_explained()
        else:
            run.restarts.on_node_end(node, cause)

    def _on_engine_end(self, ended: EngineEnded) -> None:
        """Stop the run: the engine has ended, though node launchers may still be running."""
        run = self._run
        waiting = [node for node in run.nodes if not node.over]
        if ended.killed:
            run.record.discard_node_signal()
        if run.started and run.restarts.outlives_engine():
            run.log(ended.cause, "debug")
        elif run.started and (waiting or run.record.cut_off or ended.killed):
            run.record.engine_ended(ended.cause, ended.code, run.loop.clock())
            run.stop(signal.SIGTERM)
        elif not run.started and not run.startup.abandon():
            for node in waiting:
                run.fail_start(node, ended.cause)
