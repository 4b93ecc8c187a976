"""How a run handles the frames of its nodes."""

from __future__ import annotations

import signal
from functools import partial

from ...backends import BACKENDS
from ...control import frames, messages
from .phase import Phase
from .restart_policy import BEYOND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .run import Run
    from .run_node import RunNode


class NodeFrames:
    """Handles every kind of frame that a node may send."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.handlers: dict[int, Callable[[RunNode, bytes], None]] = {
            frames.HELLO: self._on_hello,
            frames.PROBED: run.startup.on_probed,
            frames.REACHED: run.startup.on_reached,
            frames.OUTPUT: run.output.on_output,
            frames.STARTED: self._on_started,
            frames.EXIT: self._on_exit,
            frames.NOTE: self._on_note,
            frames.WAITS: self._on_note,
            frames.INPUT_ACK: self._on_took,
            frames.DONE: self._on_done,
            frames.SHARD_REQUEST: self._on_ask,
            frames.BINDINGS: self._on_bound,
            frames.ACTIVITY: self._on_activity,
            frames.OPENED: lambda node, _body: run.staged.on_answer(node),
            frames.BEAT: lambda _node, _body: None,
            **run.restarts.handlers,
        }

    def on_frame(self, node: RunNode, kind: int, body: bytes) -> None:
        """Handle a frame.

        Raises:
            BadFrame: the frame is not expected now.
        """
        handler = self.handlers.get(kind)
        if handler is None:
            raise frames.BadFrame("not expected in this job")
        handler(node, body)

    def _on_hello(self, node: RunNode, body: bytes) -> None:
        hello = messages.unpack(messages.Hello, body)
        if node.hello is not None or node.busy:
            raise frames.BadFrame("a second HELLO")
        if node.left_out:
            return  # it has been told to stop meanwhile
        if hello.facts is not None:
            node.read_wall(hello.facts.wall, self._run.loop.clock() - node.asked)
        node.connection.read_clock(hello.clock, self._run.loop.clock())
        if self._run.health is None or hello.problems:
            self._on_fit(node, hello)
        else:
            self._run.health.check(node, partial(self._on_checked, node, hello))

    def _on_checked(self, node: RunNode, hello: messages.Hello, why: str) -> None:
        """Handle the outcome of the health command on a node that has said HELLO."""
        if not why:
            self._on_fit(node, hello)
        elif self._run.started:
            self._run.restarts.on_hello(node, hello._replace(problems=(why,)))
        else:
            self._run.fail_start(node, why)

    def _on_fit(self, node: RunNode, hello: messages.Hello) -> None:
        run = self._run
        if not run.started:
            run.startup.on_hello(node, hello)
        elif hello.network is None or hello.problems:
            run.restarts.on_hello(node, hello)
        else:
            node.busy = True
            there = [one for one in run.nodes if not one.over]
            accept = partial(self._accept, node, hello, node.asked)
            run.startup.interfaces().examine_newcomer(node, hello, there, accept)

    def _accept(self, node: RunNode, hello: messages.Hello, asked: float) -> None:
        """Offer a newcomer to the policy, unless the connection of its HELLO is gone."""
        if node.connection.connected and node.asked == asked:
            node.busy = False
            self._run.restarts.on_hello(node, hello)

    def _on_started(self, node: RunNode, body: bytes) -> None:
        self._run.check_started()
        started = messages.unpack(messages.Started, body)
        for rank in started.ranks:
            node.limits.check_rank(rank)
        self._run.workers.started(node, started)
        if self._run.observers:
            self._run.observers.running(node, started.ranks)

    def _on_exit(self, node: RunNode, body: bytes) -> None:
        run, ended = self._run, messages.unpack(messages.Exit, body)
        node.limits.check_end(ended.rank)
        run.staged.on_answer(node)
        node.connection.read_clock(ended.clock, run.loop.clock())
        if run.shards:
            run.shards.worker_exited(node, ended.rank)
        run.workers.ended(ended)
        if run.observers:
            run.observers.exited(node, ended)
        if not ended.failed:
            run.record.exited(node, ended)
        elif not run.restarts.on_failure(node, ended):
            run.record.exited(node, ended)
            run.stop(signal.SIGTERM)

    def _on_activity(self, node: RunNode, body: bytes) -> None:
        from ...control import activity_messages

        self._run.check_started()
        activity = messages.unpack(activity_messages.Activity, body)
        for one in activity.ranks:
            node.limits.check_rank(one.rank)
        if self._run.observers:
            self._run.observers.active(node, activity)

    def _on_took(self, node: RunNode, body: bytes) -> None:
        """Count standard input that rank 0 has read."""
        size, stdin = frames.unpack_count(body), self._run.stdin
        if stdin is None or node is not self._run.staged.first:
            raise frames.BadFrame("input read, but none sent")
        stdin.took(size)

    def _on_ask(self, node: RunNode, body: bytes) -> None:
        if self._run.shards is None:
            raise frames.BadFrame("SHARD_REQUEST without --shard_queue")
        node.limits.check_rank(frames.unpack_ask(body)[0])
        self._run.shards.on_ask(node, body)

    def _on_note(self, node: RunNode, body: bytes) -> None:
        note = messages.unpack(messages.Note, body)
        node.connection.count_note()
        if note.signal:
            self._run.check_started()
        if note.signal == signal.SIGKILL:
            self._lose_guard(node, note.text)
            return
        self._run.warn(f"{node.name}: {note.text}")
        if note.signal:
            self._stop_by(note.signal)

    def _lose_guard(self, node: RunNode, reason: str) -> None:
        """Stop the run: a node has reported that it cannot go on, and is about to exit."""
        # An ending engine kills guards; the cause is then the engine's, which follows.
        by_engine = BACKENDS[self._run.plan.launcher].by_engine
        self._run.restarts.await_end(node, self._run.grace + BEYOND * self._run.lease)
        self._run.lose(node, reason, over=False, explained=not by_engine)

    def _stop_by(self, number: int) -> None:
        """Stop the run: a node launcher has received a signal that ends it."""
        if not self._run.stopping:  # else the engine sent it because another node had ended
            self._run.record.stopped_by_node(number)
        self._run.stop(number)

    def _on_bound(self, node: RunNode, body: bytes) -> None:
        """Print what all workers are bound to, once every node has reported it."""
        self._run.check_started()
        node.bound = messages.unpack(messages.NodeBindings, body)
        known = [(one.name, one.bound) for one in self._run.nodes if one.bound]
        if len(known) == len(self._run.nodes):
            from ..report import bindings

            self._run.log(bindings.table(known))

    def _on_done(self, node: RunNode, body: bytes) -> None:
        run = self._run
        if not node.lost:  # else it may have been left out of the start
            run.check_started()
        node.end(messages.unpack(messages.Done, body))
        if run.phase is not Phase.RUNNING or not run.restarts.on_done(node):
            run.end_when_over()
