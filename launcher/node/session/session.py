"""The session of a control line on a node, from start to end: runs, signals, and the guard.

The runner sends a JOB for each run, and START once all nodes are ready for the run. After DONE
the line serves the next JOB, until END or the end of the line.
"""

from __future__ import annotations

import signal
from functools import partial

from ...common import loop as loops
from ...common import system
from ...common.event_queue import EventQueue
from ...common.stderr import tell
from ...control import frames, messages
from ...control.connection import Connection
from ..guard import INITIAL_SILENCE, PASSED
from ..machine import processes
from ..run.run import NodeRun, RunContext
from ..run.run_state import NodeRunPhase
from .heartbeats import Heartbeats
from .preparation import Preparation
from .session_state import SessionPhase, SessionSnapshot, SessionState
from .signal_deduplicator import TOGETHER, SignalDeduplicator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Concatenate, ParamSpec

    from ...control.stream import FrameStream
    from ..answers import NodeQuestions
    from ..guard import Guard
    from ..workers.prepare import FileFindings
    from .side_services import SideServices
    from .signal_deduplicator import Way

    P = ParamSpec("P")

START_TIMEOUT = 600.0
"""Seconds to wait for the first START."""

ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals of a scheduler that end this node's part of the job."""


class Session:
    """The session of a control line on a node.

    All events on the node enter one queue: the session's, its run's, the workers' and the rounds'.
    """

    def __init__(self, line: FrameStream, loop: loops.Loop, guard: Guard, *, joined: bool) -> None:
        """Serve `line` on `loop`, under `guard`.

        `joined` means that this node has joined the job by itself: it exits with the exit code of
        the job, and prints the report.
        """
        self._loop = loop
        self._state = SessionState(self)
        self._queue = EventQueue()
        self._guard = guard
        self._joined = joined
        self._run: NodeRun | None = None
        self._unsent: list[bytes] | None = None
        self._peers = b""
        self._looked = False
        self._questions: NodeQuestions | None = None
        self._side_services: SideServices | None = None
        self._signals = SignalDeduplicator(loop, self._on_signal)
        self._link = Connection(loop, line, self._handlers(), self._on_lost)
        self._link.when_drained(self._on_cleared)
        self._heartbeats = Heartbeats(loop, self._link, self._on_silence)
        self._checks = Preparation(loop, self._send)
        self._start_timer = loop.call_later(START_TIMEOUT, lambda: self._close("no START yet"))

    def _handlers(self) -> dict[int, Callable[[bytes], None]]:
        """Return the handler of each kind of frame; it puts the frame in the queue."""
        handlers: dict[int, Callable[[bytes], None]] = {
            frames.JOB: self._on_job,
            frames.START: self._on_start,
            frames.STOP: self._on_stop,
            frames.SIGNAL: self._on_signal_frame,
            frames.SUSPEND: self._on_lease,
            frames.END: self._on_end,
            frames.BEAT: self._on_beat,
            frames.PEERS: self._on_peers,
            frames.LEASE: self._on_lease_without_job,
            frames.QUESTION: self._on_question,
            **{kind: partial(self._pass_on, kind) for kind in frames.TO_RUN},
            **{kind: partial(self._on_service_frame, kind) for kind in frames.TO_SIDE_SERVICES},
        }
        return {kind: self._queue.later(one) for kind, one in handlers.items()}

    def run(self) -> int:
        """Serve the line until nothing is left to do here; return the exit code."""
        self._loop.on_signals({*PASSED, signal.SIGCHLD}, self._on_own_signal)
        self._guard.watch(
            self._loop,
            lambda number: self._receive(number, "guard"),
            lambda: self._handle(self._state.guard_died),
        )
        self._loop.run()
        self._guard.wake()
        return self._state.code

    # -- its state --------------------------------------------------------------------------

    def _handle(
        self,
        happened: Callable[Concatenate[SessionSnapshot, P], None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        """Report an event to the state, after the events in progress."""
        self._queue.put(lambda: happened(self._snapshot(), *args, **kwargs))

    def _snapshot(self) -> SessionSnapshot:
        run, services = self._run, self._side_services
        return SessionSnapshot(
            active=self._active is not None,
            ended=self._ended,
            grace=run.task.supervision.grace if run is not None else 0.0,
            by_engine=run is not None and run.task.by_engine,
            held=run is not None and run.task.held,
            background=run is not None and run.leaves_background,
            stuck=run.stuck if run is not None else (),
            open=self._link.open,
            unsent=self._link.pending,
            services=services is not None and not services.over,
        )

    def _on_cleared(self) -> None:
        self._handle(self._state.cleared)

    def _on_lost(self, reason: str) -> None:
        self._handle(self._state.runner_lost, reason)

    @property
    def _active(self) -> NodeRun | None:
        return self._run if self._run is not None and self._run.active else None

    @property
    def _ended(self) -> bool:
        ended = self._run is not None and self._run.phase is NodeRunPhase.ENDED
        return ended and not self._checks.making

    # -- runs -------------------------------------------------------------------------------

    def _on_job(self, body: bytes) -> None:
        """Start the checks for a run, which replaces a run that was not started."""
        task = messages.unpack(messages.NodeJob, body)
        if self._active:
            raise frames.BadFrame("JOB while workers run")
        if self._state.phase is not SessionPhase.SERVING:
            raise frames.BadFrame("JOB for a node launcher that is exiting")
        self._checks.cancel()
        if self._run is not None:
            self._run.close()
        self._guard.keep_alive(self._loop, INITIAL_SILENCE)
        self._heartbeats.lease = task.lease
        if self._heartbeats.beating:  # this tells the runner that the checks have started
            self._heartbeats.beat()
        self._checks.start(task, partial(self._on_checked, task))

    def _on_checked(self, task: messages.NodeJob, found: FileFindings) -> None:
        """Prepare the run, and send HELLO; each JOB gets a HELLO, which may list problems."""
        kept = None if self._run is None else self._run.kept
        self._unsent = []  # notes before HELLO would be of the previous run
        told = self._signals.flush, self._signals.started, self._show_life
        around = RunContext(kept, self._apart, *told, self._queue)
        ended = partial(self._handle, self._state.run_ended)
        self._run = NodeRun(self._loop, task, self._send, ended, found, around)
        if task.part and self._peers:
            self._run.tell_peers(self._peers)
        unsent, self._unsent = self._unsent, None
        self._send(messages.pack(frames.HELLO, self._run.hello()))
        for frame in unsent:
            self._send(frame)
        self._heartbeats.count_anew()
        self._guard.keep_alive(self._loop, task.stillness)
        if task.held:  # START may be long in coming
            self._start_beats()

    def _on_start(self, body: bytes) -> None:
        start, run = messages.unpack(messages.Start, body), self._run
        if run is None:
            raise frames.BadFrame("START before JOB")
        if run.phase is not NodeRunPhase.PREPARED:
            raise frames.BadFrame("a second START")
        self._start_timer.cancel()
        self._signals.flush()
        self._queue.put(self._start, start)

    def _start(self, start: messages.Start) -> None:
        """Start the run, unless an earlier signal ends this node's part."""
        run = self._run
        if run is None or self._state.leaves:
            return
        task = run.task
        self._guard.keep_alive(self._loop, task.stillness, "" if task.held else task.job_id)
        self.spare()
        run.open_to_store()
        # The runner now starts the other nodes, which must not connect to our own listener. A
        # heartbeat does not tell that: it may have been sent earlier.
        self._send(frames.pack(frames.OPENED))
        self._heartbeats.beat()
        if self._link.open:
            run.start(start, looks=not self._looked)
        self._looked = True

    def _on_peers(self, body: bytes) -> None:
        """Keep the peers for this JOB and later ones; tell the run, if its checks are done."""
        self._peers = body
        if self._run is not None and self._run.task.part and not self._checks.making:
            self._run.tell_peers(body)

    def _pass_on(self, kind: int, body: bytes) -> None:
        if self._run is None:
            raise frames.BadFrame("no JOB was sent yet")
        self._run.receive(kind, body)

    # -- beside the runs ---------------------------------------------------------------------

    def _apart(self) -> set[int]:
        owners = (self._side_services, self._questions, self._checks)
        return {pid for one in owners if one is not None for pid in one.pids}

    def _on_service_frame(self, kind: int, body: bytes) -> None:
        if self._state.leaves and (self._side_services is None or kind == frames.EXEC):
            return
        if self._side_services is None:
            from .side_services import SideServices

            heard = self._signals, self._on_cleared
            self._side_services = SideServices(self._loop, self._link, *heard)
        if kind == frames.EXEC and not self._heartbeats.lease:
            from ...control import command_messages

            self._start_without_job(messages.unpack(command_messages.ExecCommand, body).lease)
        self._side_services.handlers[kind](body)

    def _on_lease_without_job(self, body: bytes) -> None:
        """Start to watch the runner's silence on a spare node."""
        from ...control import role_messages

        lease = messages.unpack(role_messages.Lease, body).seconds
        if not self._heartbeats.lease:
            self._start_without_job(lease)

    def _start_without_job(self, lease: float) -> None:
        self._heartbeats.lease = lease
        self._guard.keep_alive(self._loop, lease)
        self._start_beats()

    def _on_question(self, body: bytes) -> None:
        """Answer a question; the code for that is imported for the first one."""
        if self._questions is None:
            from ..answers import NodeQuestions, QuestionContext
            from ..doors import QUESTIONS

            workers = lambda: self._active.workers if self._active else ()  # noqa: E731
            context = QuestionContext(self._loop, workers)
            self._questions = NodeQuestions(self._send, context, QUESTIONS)
        self._questions.on_question(body)

    # -- the runner's silence ---------------------------------------------------------------

    def _close(self, reason: str) -> None:
        self._link.close()
        self._on_lost(reason)

    def _on_beat(self, _body: bytes) -> None:
        """Answer the first beat with a beat: the runner uses its nodes now, or later."""
        if self._heartbeats.lease and not self._heartbeats.beating:
            self._start_beats()

    def _start_beats(self) -> None:
        self._start_timer.cancel()
        self._heartbeats.beat()

    def _on_lease(self, body: bytes) -> None:
        self._heartbeats.on_lease(body)

    def _on_silence(self, reason: str) -> None:
        self.tell_why(reason)  # this arrives if the network is only slow
        self._close(reason)

    def _show_life(self) -> None:
        """Send due heartbeats while workers are being started, when the loop does not run."""
        if self._run is not None and self._heartbeats.is_due:
            self._link.receive()
            self._heartbeats.beat()
            self._guard.keep_alive(self._loop, self._run.task.stillness)

    def _on_end(self, body: bytes) -> None:
        end = messages.unpack(messages.SessionEnd, body)
        if self._joined:
            from ...common.text import plain

            system.write_error(plain(end.report))
        self._handle(self._state.runner_ended, end.code if self._joined else None)

    def _send(self, frame: bytes) -> None:
        if self._unsent is None:
            self._link.send(frame)
        else:
            self._unsent.append(frame)

    # -- signals ----------------------------------------------------------------------------

    def _on_stop(self, body: bytes) -> None:
        self._checks.cancel()
        stop, run = messages.unpack(messages.Stop, body), self._run
        if run is None:
            self._send(messages.pack(frames.DONE, messages.Done((), {})))
        elif run.phase is NodeRunPhase.PREPARED:
            run.stop(stop.number, stop.grace)
        else:
            self._when_settled(run, stop.number, lambda: self._stop_run(run, stop))

    def _stop_run(self, run: NodeRun, stop: messages.Stop) -> None:
        self._reap()  # a worker that has failed by itself was not stopped
        delivered = self._signals.reached_workers(stop.number)
        run.stop(stop.number, stop.grace, delivered=delivered)

    def _on_signal_frame(self, body: bytes) -> None:
        run, number = self._active, frames.unpack_signal(body)
        if run is not None:
            self._when_settled(run, number, lambda: self._signal_run(run, number))

    def _signal_run(self, run: NodeRun, number: int) -> None:
        same = self._signals.handled if run.task.settle else self._signals.reached_workers
        if not same(number):
            run.signal_all(number)

    def _when_settled(self, run: NodeRun, number: int, act: Callable[[], None]) -> None:
        """Act on a signal of the runner, once a signal to this node directly would have arrived."""

        def settled() -> None:
            if self._signals.undecided(number):
                self._loop.call_later(TOGETHER, settled)
            else:
                act()

        if run.task.settle:
            self._loop.call_later(run.task.settle, settled)
        else:
            settled()

    def _on_own_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        else:
            self._receive(number, "launcher")

    def _receive(self, number: int, way: Way) -> None:
        self._signals.received(number, way)
        if self._active and not any(one.status is None for one in self._active.workers):
            self._tell_undecided()

    def _tell_undecided(self) -> None:
        """Tell the runner of an undecided signal before it hears of worker exits.

        The signal may have reached the workers directly, and may end them before that is decided.
        """
        for number in ENDS.intersection(self._signals.all_undecided()):
            self._handle(self._state.signal_heard, number)

    def _reap(self) -> None:
        """Reap all children that have ended, and report them to everything that starts children."""
        self._tell_undecided()
        reaped = processes.reap()
        for one in (self._run, self._side_services, self._questions, self._checks):
            if one is not None:
                one.on_reaped(reaped)

    def _on_signal(self, number: int, delivered: bool) -> None:
        """Act on a scheduler's signal; with `delivered`, the workers have already received it."""
        if self._side_services is not None:
            self._side_services.on_signal(number, delivered=delivered, ends=number in ENDS)
        if number == signal.SIGQUIT:
            self._show()
        elif number in ENDS:
            self._handle(self._state.signal_came, number, delivered=delivered)
        elif self._active and not delivered:
            self._active.signal_all(number)

    def _show(self) -> None:
        """Print the workers of this node, if it has joined by itself (on SIGQUIT)."""
        if self._joined and self._active:
            here = ", ".join(f"rank {p.spec.rank} (pid {p.pid})" for p in self._active.workers)
            tell(f"on this node: {here}; Ctrl-\\ on node 0 shows all")

    # -- decisions of its state (`SessionActions`) --------------------------------------------

    def tell_why(self, reason: str, number: int = signal.SIGKILL) -> None:
        """Tell the runner why this node leaves, and by which signal."""
        self._send(messages.pack(frames.NOTE, messages.Note(reason, number)))

    def stop_run(
        self, number: int, grace: float, *, reason: str = "", delivered: bool = False
    ) -> None:
        """Stop the workers, as `NodeRun.stop` does."""
        if self._run is not None:
            self._run.stop(number, grace, reason=reason, delivered=delivered)

    def stop_without_runner(self, reason: str) -> None:
        """Stop the workers, and discard their output."""
        if self._run is not None:
            self._run.stop_without_runner(reason)

    def close_services(self) -> None:
        """Close commands and lanes."""
        if self._side_services is not None:
            self._side_services.close()

    def clear(self) -> None:
        """Cancel the checks of a JOB, and answers to questions."""
        self._checks.close()
        if self._checks.pids and not (self._run and self._run.leaves_background):
            self.spare(self._checks.pids)
        if self._questions is not None:
            self._questions.close()
        if self._run is not None and (self._run.looks or not self._looked):
            self._run.stop_leftovers()  # a run without workers has not looked for leftovers

    def let_stay(self) -> None:
        """Tell the guard to leave the run's remaining processes alone."""
        self._guard.let_stay()

    def spare(self, pids: Collection[int] = ()) -> None:
        """Tell the guard to leave alone these pids, and processes that earlier runs left."""
        self._guard.spare({*(self._run.former if self._run else ()), *pids})

    def tell_left(self) -> None:
        """Print the processes that could not be stopped, as the runner cannot be told."""
        for words in self._run.left if self._run is not None else ():
            tell(f"could not be stopped: {words}")

    def exit(self) -> None:
        """End this process."""
        self._loop.stop()
