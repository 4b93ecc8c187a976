"""Handlers of the frames that nodes send to a run."""

from __future__ import annotations

import signal
from functools import partial

from ...backends import BACKENDS
from ...control import frames, messages
from .gate import GateStage
from .restart_policy import BEYOND
from .run_signals import on_late_signal
from .run_view import RunPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .run_node import RunNode
    from .run_state import RunState

    Handler = Callable[[RunNode, bytes], None]


def handler(run: RunState) -> Callable[[RunNode, int, bytes], None]:
    """Return a function that handles every kind of frame a node may send."""
    handlers: dict[int, Handler] = {
        frames.HELLO: partial(on_hello, run),
        frames.STARTED: partial(on_started, run),
        frames.EXIT: partial(on_exit, run),
        frames.NOTE: partial(on_note, run),
        frames.WAITS: partial(on_note, run),
        frames.DONE: partial(on_done, run),
        frames.SHARD_REQUEST: partial(on_shard_request, run),
        frames.BINDINGS: partial(on_bindings, run),
        frames.ACTIVITY: partial(on_activity, run),
        frames.OPENED: lambda node, _body: run.staged.on_answer(node),
        frames.BEAT: lambda _node, _body: None,
        **run.restarts.handlers,
        frames.PROBED: partial(on_probed, run),
    }

    def on_frame(node: RunNode, kind: int, body: bytes) -> None:
        """Handle a frame, or leave it to a gate.

        Raises:
            BadFrame: no such frame is expected now.
        """
        if kind in _STARTED:
            check_started(run)
        if kind in handlers:
            handlers[kind](node, body)
        else:
            run.act.on_gate_frame(node, kind, body)

    return on_frame


_STARTED = {
    *(frames.STARTED, frames.BINDINGS, frames.ACTIVITY),
    *(frames.READY, frames.AGENT_FAILED, frames.RANKS, frames.FINISHED),
}
"""Frames that no node may send before the start."""


def check_started(run: RunState) -> None:
    """Check that the run has started.

    Raises:
        BadFrame: the run has not started.
    """
    if not run.started:
        raise frames.BadFrame("the job has not started")


# -- the start --------------------------------------------------------------------------------


def on_hello(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle HELLO: a node has answered its JOB."""
    hello = messages.unpack(messages.Hello, body)
    if node.hello is not None or node.busy:
        raise frames.BadFrame("a second HELLO")
    if node.left_out:
        return  # it has been sent STOP since
    if hello.facts is not None:
        node.read_wall(hello.facts.wall, run.now - node.asked)
    node.connection.read_clock(hello.clock, run.now)
    node.latest = hello
    if hello.problems:
        _go_on(run, node, hello)
    else:
        run.check_node((GateStage.NODE,), node, partial(_on_checked, run, node, hello))


def on_probed(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle PROBED: the addresses of the master, of a start or a round, that a node reaches."""
    rounds = run.restarts.handlers.get(frames.PROBED) if run.started else None
    (rounds or run.startup.on_probed)(node, body)


def _on_checked(run: RunState, node: RunNode, hello: messages.Hello, why: str) -> None:
    """Go on with a node that has passed the gates after its HELLO; `why` is the reason not to."""
    if not why:
        node.passed_at = run.now
        _go_on(run, node, hello)
    elif run.started:
        run.restarts.on_hello(node, hello._replace(problems=(why,)))
    else:
        run.startup.fail(node, why)


def _go_on(run: RunState, node: RunNode, hello: messages.Hello) -> None:
    if not run.started:
        run.startup.on_hello(node, hello)
    elif hello.problems:
        run.restarts.on_hello(node, hello)
    else:
        run.check_node((GateStage.MASTER, GateStage.START), node, partial(_offer, run, node, hello))


def _offer(run: RunState, node: RunNode, hello: messages.Hello, why: str) -> None:
    """Offer a newly connected node to the restart policy, unless its connection is gone."""
    if node.connection.connected:
        run.restarts.on_hello(node, hello._replace(problems=(why,) if why else ()))


# -- while it runs ----------------------------------------------------------------------------


def on_started(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle STARTED: workers are running."""
    started = messages.unpack(messages.WorkersStarted, body)
    for rank in started.ranks:
        node.limits.check_rank(rank)
    run.workers.started(node, started)
    if run.observers:
        run.observers.running(node, started.ranks)


def on_output(run: RunState, node: RunNode, rank: int) -> None:
    """Handle output of a worker, which the restart policy has asked for."""
    run.restarts.on_output(node, rank)


def on_exit(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle EXIT: a worker has ended."""
    ended = messages.unpack(messages.WorkerExit, body)
    node.limits.check_end(ended.rank)
    run.staged.on_answer(node)
    node.connection.read_clock(ended.clock, run.now)
    if run.stopping and ended.failed and run.record.is_consequence(node, ended):
        ended = ended._replace(signalled=True)
    if run.shards:
        run.shards.worker_exited(node, ended.rank)
    run.workers.ended(ended)
    if run.observers:
        run.observers.exited(node, ended)
    if ended.failed:
        run.restarts.on_failure(node, ended)
    else:
        run.record.exited(node, ended)


def on_activity(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle ACTIVITY: a report on the workers of a node."""
    from ...control import activity_messages

    activity = messages.unpack(activity_messages.Activity, body)
    for one in activity.ranks:
        node.limits.check_rank(one.rank)
    if run.observers:
        run.observers.active(node, activity)


def on_shard_request(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle SHARD_REQUEST of a worker."""
    if run.shards is None:
        raise frames.BadFrame("SHARD_REQUEST without --shard_queue")
    node.limits.check_rank(frames.unpack_shard_request(body)[0])
    run.shards.on_ask(node, body)


def on_bindings(run: RunState, node: RunNode, body: bytes) -> None:
    """Print the CPU and memory bindings of all workers, once every node has reported its own."""
    from ...features.binding import runner_report as bindings

    node.bound = messages.unpack(messages.NodeBindings, body)
    bindings.show([(one.name, one.bound) for one in run.nodes], run.log)


def on_note(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle NOTE: a line for the user, or a signal that a node launcher has received."""
    note = messages.unpack(messages.Note, body)
    node.connection.count_note()
    if note.signal:
        check_started(run)
    if note.signal == signal.SIGKILL:
        _lose_guard(run, node, note.text)
        return
    run.warn(f"{node.name}: {note.text}")
    if note.signal and run.ending:
        on_late_signal(run, note.signal)
    elif note.signal and not node.over:  # else no worker is left there that could be stopped
        _stop_by(run, note.signal)


def _lose_guard(run: RunState, node: RunNode, reason: str) -> None:
    """Handle a node launcher that has lost its guard and is about to exit: lose the node."""
    # An ending engine kills guards; then the engine's own end, reported next, is the cause.
    by_engine = BACKENDS[run.plan.launcher].by_engine
    run.restarts.await_end(node, run.grace + BEYOND * run.lease)
    run.lose(node, reason, over=False, explained=not by_engine, own=True)


def _stop_by(run: RunState, number: int) -> None:
    """Stop the run: a node launcher has received a signal that ends it."""
    # Otherwise the engine sent the signal because another node had ended.
    if not run.stopping or run.record.failed_beside(number, run.now):
        run.record.stopped_by_node(number, run.now)
    run.stop(number)


def on_done(run: RunState, node: RunNode, body: bytes) -> None:
    """Handle DONE: no process of the job is left on a node."""
    if not node.lost:  # a lost node may have been left out of the start
        check_started(run)
    node.finish(messages.unpack(messages.Done, body))
    if run.phase is RunPhase.RUNNING:
        run.restarts.on_done(node)
    else:
        run.finish_if_over()
