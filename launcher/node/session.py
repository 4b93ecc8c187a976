"""A control line on a node, from its beginning to its end: runs, signals, and the guard.

The runner sends a JOB for every run, and START once all nodes are ready for it. After a run's DONE
the line serves the next JOB, until END or the end of the line.
"""

from __future__ import annotations

import signal
from enum import Enum
from functools import partial

from ..common import loop as loops
from ..common import system
from ..common.errors import LOST
from ..common.tell import tell
from ..control import frames, messages
from ..control.connection import Connection
from . import processes
from .guard import INITIAL_SILENCE, PASSED
from .heartbeats import Heartbeats
from .preparation import Preparation
from .run import NodeRun, Surroundings
from .run_state import Phase as RunPhase
from .signal_deduplicator import TOGETHER, SignalDeduplicator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from ..control.stream import FrameStream
    from .guard import Guard
    from .machine_requests import MachineRequests
    from .side_services import SideServices
    from .workers.prepare import Found

START_TIMEOUT = 600.0
"""Seconds to wait for the first START."""

ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
"""Signals of a scheduler that end this node's part of the job."""


class Phase(Enum):
    """The phase of a session.

    Attributes:
        SERVING: it serves one run after another.
        LEAVING: it waits for the end of the active run; no other run follows.
        CLEARING: it waits for the end of what it has started beside its runs, and of what is sent.
        OVER: the process ends.
    """

    SERVING = 1
    LEAVING = 2
    CLEARING = 3
    OVER = 4


class Session:
    """A control line on a node.

    Attributes:
        code: the exit code for this process.
    """

    def __init__(self, line: FrameStream, loop: loops.Loop, guard: Guard, *, joined: bool) -> None:
        """Serve `line` on `loop`, under `guard`.

        With `joined`, this node has joined the job by itself: it exits with the exit code of the
        job, and prints its report.
        """
        self.code = 0
        self._loop = loop
        self._guard = guard
        self._joined = joined
        self._phase = Phase.SERVING
        self._run: NodeRun | None = None
        self._unsent: list[bytes] | None = None
        self._peers = b""
        self._looked = False
        self._machine: MachineRequests | None = None
        self._side_services: SideServices | None = None
        self._signals = SignalDeduplicator(loop, self._on_signal)
        self._link = Connection(loop, line, self._handlers(), self._lost)
        self._heartbeats = Heartbeats(loop, self._link, self._on_silence)
        self._checks = Preparation(loop, self._send)
        self._start_timer = loop.call_later(START_TIMEOUT, lambda: self._give_up("no START came"))

    def _handlers(self) -> dict[int, Callable[[bytes], None]]:
        return {
            frames.JOB: self._on_job,
            frames.START: self._on_start,
            frames.STOP: self._on_stop,
            frames.SIGNAL: self._on_signal_frame,
            frames.SUSPEND: self._on_lease,
            frames.END: self._on_end,
            frames.BEAT: self._on_beat,
            frames.PEERS: self._on_peers,
            **{kind: partial(self._pass_on, kind) for kind in frames.TO_RUN},
            **{kind: partial(self._on_service_frame, kind) for kind in frames.TO_SIDE_SERVICES},
            **{kind: partial(self._on_machine, kind) for kind in frames.TO_MACHINE},
        }

    def run(self) -> int:
        """Serve the line until nothing more is to be done here; return the exit code."""
        self._loop.on_signals({*PASSED, signal.SIGCHLD}, self._on_own_signal)
        self._guard.watch(
            self._loop, lambda number: self._signals.received(number, "guard"), self._guard_died
        )
        self._loop.run()
        self._guard.wake()
        return self.code

    def _end(self) -> None:
        """End the session, as soon as nothing runs beside its runs, and all is sent."""
        self._checks.close()
        if self._checks.pids and not (self._run and self._run.leaves_background):
            self._spare(self._checks.pids)
        if self._machine is not None:
            self._machine.close()
        self._phase = Phase.CLEARING
        if self._side_services is not None and not self._side_services.over:
            self._side_services.close()
        elif self._link.pending:
            self._link.on_drained = self._end
        else:
            self._phase = Phase.OVER
            self._loop.stop()

    @property
    def _active(self) -> NodeRun | None:
        """The run that is active, if any."""
        return self._run if self._run is not None and self._run.active else None

    @property
    def _ended(self) -> bool:
        """Whether the newest run has ended."""
        ended = self._run is not None and self._run.phase is RunPhase.ENDED
        return ended and not self._checks.making

    # -- runs -------------------------------------------------------------------------------

    def _on_job(self, body: bytes) -> None:
        """Prepare a run; it replaces one that was not started."""
        task = messages.unpack(messages.NodeJob, body)
        if self._active:
            raise frames.BadFrame("JOB while workers run")
        if self._phase is not Phase.SERVING:
            raise frames.BadFrame("JOB for a node launcher that is leaving")
        self._checks.settle()
        if self._run is not None:
            self._run.close()
        self._guard.keep_alive(self._loop, INITIAL_SILENCE)
        self._heartbeats.lease = task.lease
        self._checks.begin(task, partial(self._on_checked, task))

    def _on_checked(self, task: messages.NodeJob, found: Found) -> None:
        """Prepare the run, and say HELLO; every JOB has one, which may name problems."""
        kept = None if self._run is None else self._run.kept
        self._unsent = []  # what comes before HELLO would be of the run before
        signals = self._signals
        around = Surroundings(kept, self._apart, signals.settle, signals.started)
        self._run = NodeRun(self._loop, task, self._send, self._on_run_end, found, around)
        if task.part and self._peers:
            self._run.tell_peers(self._peers)
        unsent, self._unsent = self._unsent, None
        self._send(messages.pack(frames.HELLO, self._run.hello()))
        for frame in unsent:
            self._send(frame)
        self._heartbeats.count_anew()
        if task.held:  # it may be long until a START
            self._guard.keep_alive(self._loop, task.stillness)
            self._begin_beats()

    def _on_start(self, body: bytes) -> None:
        start, run = messages.unpack(messages.Start, body), self._run
        if run is None:
            raise frames.BadFrame("START before JOB")
        if run.phase is not RunPhase.PREPARED:
            raise frames.BadFrame("a second START")
        self._start_timer.cancel()
        self._signals.settle()
        if self._phase in {Phase.CLEARING, Phase.OVER}:
            return
        self._guard.keep_alive(self._loop, run.task.stillness)
        self._spare()
        run.open_to_store()
        # The runner then starts the other nodes, which must not connect to our own listener. A
        # heartbeat says nothing of that: it may have been sent before.
        self._send(frames.pack(frames.OPENED))
        self._heartbeats.beat()
        if self._link.open:
            run.start(start)
        if not self._looked:  # not for each of many runs: it reads all of /proc
            self._looked = True
            run.look_for_leftovers()

    def _on_peers(self, body: bytes) -> None:
        """Keep what comes before a JOB has been checked; the newest is for all that follow."""
        self._peers = body
        if self._run is not None and self._run.task.part and not self._checks.making:
            self._run.tell_peers(body)

    def _pass_on(self, kind: int, body: bytes) -> None:
        if self._run is None:
            raise frames.BadFrame("there is no JOB yet")
        self._run.receive(kind, body)

    def _on_run_end(self) -> None:
        assert self._run is not None
        if self._run.leaves_background:
            self._guard.let_stay()
        elif self._run.stuck:
            self._spare(self._run.stuck)
        if not self._link.open:
            for words in self._run.left:
                tell(f"could not be ended: {words}")
            self._end()
        elif self._phase is Phase.LEAVING and self._run.task.held:
            self._end()  # the runner keeps the line, for runs that this session cannot serve

    def _spare(self, stuck: Collection[int] = ()) -> None:
        """Have the guard leave alone what earlier runs have left, and what waits for a disk."""
        self._guard.spare({*(self._run.former if self._run else ()), *stuck})

    # -- beside the runs ---------------------------------------------------------------------

    def _apart(self) -> set[int]:
        """Return the children that belong to no run."""
        owners = (self._side_services, self._machine, self._checks)
        return {pid for one in owners if one is not None for pid in one.pids}

    def _on_service_frame(self, kind: int, body: bytes) -> None:
        leaves = self._phase in {Phase.CLEARING, Phase.OVER}
        if leaves and (self._side_services is None or kind == frames.EXEC):
            return
        if self._side_services is None:
            from .side_services import SideServices

            ended = self._on_service_end
            self._side_services = SideServices(self._loop, self._link, self._signals, ended)
        if kind == frames.EXEC and not self._heartbeats.lease:
            self._begin_without_job(body)
        self._side_services.handlers[kind](body)

    def _begin_without_job(self, body: bytes) -> None:
        """Count the runner's silence from the first command on."""
        from ..control import command_messages

        lease = self._heartbeats.lease = messages.unpack(command_messages.Command, body).lease
        self._guard.keep_alive(self._loop, lease)
        self._begin_beats()

    def _on_service_end(self) -> None:
        if self._phase is Phase.CLEARING:
            self._end()

    # -- this machine -----------------------------------------------------------------------

    def _on_machine(self, kind: int, body: bytes) -> None:
        """Handle a request about this machine; what does so is imported for the first of them."""
        if self._machine is None:
            from .machine_requests import MachineRequests

            workers = lambda: self._active.workers if self._active else ()  # noqa: E731
            self._machine = MachineRequests(self._loop, self._send, workers)
        self._machine.handlers[kind](body)

    # -- the runner's silence ---------------------------------------------------------------

    def _give_up(self, reason: str) -> None:
        self._link.close()
        self._lost(reason)

    def _lost(self, reason: str) -> None:
        """Leave without the runner: stop the workers, and discard their output."""
        if self._side_services is not None:
            self._side_services.close()
        if self._phase is Phase.CLEARING:
            self._end()
            return
        if not self._ended:
            self.code = LOST
        if self._active:
            self._phase = Phase.LEAVING
            self._active.abandon(f"lost contact with the runner: {reason}")
        else:
            self._end()

    def _on_beat(self, _body: bytes) -> None:
        """Answer the first beat with ours: the runner uses its nodes, this one later or never."""
        if self._heartbeats.lease and not self._heartbeats.beating:
            self._begin_beats()

    def _begin_beats(self) -> None:
        self._start_timer.cancel()
        self._heartbeats.beat()

    def _on_lease(self, body: bytes) -> None:
        self._heartbeats.on_lease(body)

    def _on_silence(self, reason: str) -> None:
        self._note_end(reason)  # it arrives if the network is only slow
        self._give_up(reason)

    def _on_end(self, body: bytes) -> None:
        end = messages.unpack(messages.End, body)
        if self._joined:
            from ..common.text import plain

            self.code = end.code
            system.write_error(plain(end.report))
        self._end()

    def _send(self, frame: bytes) -> None:
        if self._unsent is None:
            self._link.send(frame)
        else:
            self._unsent.append(frame)

    def _note_end(self, text: str, number: int = signal.SIGKILL) -> None:
        """Tell the runner why this node leaves."""
        self._send(messages.pack(frames.NOTE, messages.Note(text, number)))

    # -- signals ----------------------------------------------------------------------------

    def _on_stop(self, body: bytes) -> None:
        self._checks.settle()
        stop, run = messages.unpack(messages.Stop, body), self._run
        if run is None:
            self._send(messages.pack(frames.DONE, messages.Done((), {})))
        elif run.phase is RunPhase.PREPARED:
            run.stop(stop.number, stop.grace)
        else:
            self._when_settled(run, stop.number, lambda: self._stop_run(run, stop))

    def _stop_run(self, run: NodeRun, stop: messages.Stop) -> None:
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
        """Act on a signal of the runner; if it may also reach this node directly, wait for that."""

        def settled() -> None:
            if self._signals.undecided(number):
                self._loop.call_later(TOGETHER, settled)
            else:
                act()

        if run.task.settle:
            self._loop.call_later(run.task.settle, settled)
        else:
            act()

    def _on_own_signal(self, number: int) -> None:
        if number == signal.SIGCHLD:
            self._reap()
        else:
            self._signals.received(number, "launcher")

    def _reap(self) -> None:
        """Reap every child that has ended, and tell whoever may have started it."""
        reaped = processes.reap()
        for one in (self._run, self._side_services, self._machine, self._checks):
            if one is not None:
                one.on_reaped(reaped)

    def _on_signal(self, number: int, delivered: bool) -> None:
        """Act on a scheduler's signal; with `delivered`, the workers have got it as well."""
        if self._side_services is not None:
            self._side_services.on_signal(number, delivered=delivered, ends=number in ENDS)
        if number == signal.SIGQUIT:
            self._show()
        elif number in ENDS:
            self._leave_by_signal(number, delivered=delivered)
        elif self._active and not delivered:
            self._active.signal_all(number)

    def _guard_died(self) -> None:
        """Leave at once: without the guard, the death of this process would leave orphans.

        An engine that ends kills the guards of all nodes, as it knows no other processes. Then
        nothing is wrong here, and the workers have their grace period.
        """
        self.code, reason = LOST, "its guard was killed"
        run = self._leave(reason, signal.SIGKILL)
        if run is not None:
            run.stop(
                signal.SIGTERM,
                run.task.supervision.grace if run.task.by_engine else 0,
                reason=reason,
            )

    def _leave_by_signal(self, number: int, *, delivered: bool) -> None:
        run = self._leave(f"the node launcher got {signal.Signals(number).name}", number)
        if run is not None:
            run.stop(number, run.task.supervision.grace, delivered=delivered)

    def _leave(self, reason: str, number: int) -> NodeRun | None:
        """Serve no other run; return the one to stop, None if the session ends now."""
        run = self._active
        if run is not None or self._ended:
            self._note_end(reason, number)
        if run is None:
            self._end()
        else:
            self._phase = Phase.LEAVING
        return run

    def _show(self) -> None:
        """Print the workers of this node, if it has joined by itself (SIGQUIT)."""
        if self._joined and self._active:
            here = ", ".join(f"rank {p.spec.rank} (pid {p.pid})" for p in self._active.workers)
            tell(f"on this node: {here}; Ctrl-\\ on node 0 shows all")
