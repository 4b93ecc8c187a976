"""Handlers that translate events of the fleet into changes of a run."""

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
from .restart_policy import BEYOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..fleet.events import FleetEvent
    from .run_node import RunNode
    from .run_state import RunState


def on_event(run: RunState, event: FleetEvent) -> None:
    """Handle an event of the fleet.

    Raises:
        BadFrame: a node has sent an unexpected frame.
    """
    match event:
        case NodeSent():
            run.on_frame(run.node_of(event.node), event.kind, event.body)
        case NodeConnected():
            run.do(run.act.ask, run.node_of(event.node))
        case NodeDisconnected():
            on_disconnect(run, event)
        case NodeSilent():
            on_silence(run, event)
        case NodeEnded():
            on_node_end(run, run.node_of(event.node), event.cause)
        case EngineOutput():
            run.startup.show(event.text)
        case EngineEnded():
            on_engine_end(run, event)


def time_passed(run: RunState) -> None:
    """Run the timers that are due.

    No other event does: if this process stood still, it may not have read what other nodes sent.
    """
    while (call := run.timers.expired(run.timers.clock())) is not None:
        call()


def on_disconnect(run: RunState, event: NodeDisconnected) -> None:
    """Lose the node; before HELLO, wait for the backend's cause unless the node sent bad frames."""
    node, reason, fault = run.node_of(event.node), event.reason, event.fault
    if run.ending:
        return
    if run.started and not node.over:
        # The node launcher may be alive, and stop its workers only when it misses the runner.
        seconds = (BEYOND - (reason == CLOSED and event.direct)) * run.lease
        # Otherwise the session there has ended, or its end was announced: the workers end at once.
        if reason != CLOSED and not run.record.has_lost(node.name):
            run.record.outliving[node.name] = seconds
        run.restarts.await_end(node, seconds)
        run.lose(node, event.lost, explained=bool(fault or node.connection.cause))
    elif not run.started and (fault or node.hello):
        why = f"its node launcher disconnected before the start ({reason})"
        run.startup.fail(node, fault or why)


def on_silence(run: RunState, event: NodeSilent) -> None:
    """Lose a node that has been silent for too long."""
    node = run.node_of(event.node)
    if not run.started:
        run.startup.fail(node, event.lost)
    elif not node.over:
        run.record.outliving[node.name] = seconds = (BEYOND - 1) * run.lease
        run.restarts.await_end(node, seconds)
        run.lose(node, event.lost)


def on_node_end(run: RunState, node: RunNode, cause: str) -> None:
    """Handle the end of a node's session, with the backend's cause."""
    if not run.started:
        run.startup.fail(node, cause or NO_MESSAGE)
        return
    node.cleaned_up |= SWEPT in cause
    run.record.explain(node.name, cause)
    if run.ending:
        run.finish_if_explained()
    else:
        run.restarts.on_node_end(node, cause)


def on_engine_end(run: RunState, ended: EngineEnded) -> None:
    """Stop the run: the engine has ended, even if node launchers are still running."""
    waiting = [node for node in run.nodes if not node.over]
    stopped = ended.killed and run.record.discard_node_signal(run.now)
    if run.started and not stopped and run.restarts.outlives_engine():
        run.log(ended.cause, "debug")
    elif run.started and (waiting or run.record.cut_off or ended.killed):
        run.record.engine_ended(ended.cause, ended.code, run.now, killed=ended.killed)
        run.stop(signal.SIGTERM)
    elif not run.started and not run.startup.cancel_if_unfit():
        run.startup.fail_all(waiting, ended.cause)
