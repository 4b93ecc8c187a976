"""One program on this node, from JOB to DONE: its checks, its workers, and processes they leave."""

from __future__ import annotations

import os
import signal
from functools import partial

from ...common import system
from ...common.errors import DsrunError, in_words, limit_met
from ...common.event_queue import EventQueue
from ...common.records import NamedTuple
from ...control import frames, messages
from ..doors import SERVICES, outfitted
from ..machine import leftovers, processes
from ..machine.blocking import Calls
from ..service import NodeServices, ServiceContext
from ..workers.group import WorkerGroup
from ..workers.group_state import StopPolicy
from ..workers.prepare import NodeSetup
from ..workers.spawn import SpawnFailed, StartingWorkers, spawn
from ..workers.worker_specs import WorkerSpecs
from .run_state import NOT_EXECUTED, GroupEnd, NodeRunPhase, NodeRunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...common.loop import Loop
    from ...features.elastic.node_rounds import NodeRounds
    from ...features.preload.node_preloader import Preloader
    from ...features.preload.node_workers import PreloadedWorkers
    from ..workers.group import FailureDetails
    from ..workers.prepare import FileFindings
    from ..workers.spawn import Process


CONFIRM = 2.0
"""Seconds for which a process has to stay to count as left over."""


def _nothing() -> None:
    """Do nothing."""


class RunContext(NamedTuple):
    """The part of a session that its run uses.

    Attributes:
        kept: the preloader of an earlier run on this line.
        apart: returns the children of this process that belong to no run.
        starting: called before workers start; may stop the run.
        started: called after the workers have started.
        between: called before the start of each worker.
        queue: the queue of events on this node; None for a new one.
    """

    kept: Preloader | None = None
    apart: Callable[[], Collection[int]] = tuple
    starting: Callable[[], None] = _nothing
    started: Callable[[], None] = _nothing
    between: Callable[[], None] = _nothing
    queue: EventQueue | None = None


ALONE = RunContext()


class GroupNews:
    """Reports events of workers to their run: output at once, all others through the queue.

    After the end of the run it passes on no output of workers that could not be killed.
    """

    def __init__(
        self,
        state: NodeRunState,
        queue: EventQueue,
        send: Callable[[bytes], None],
        note: Callable[[str], None],
        group: Callable[[], WorkerGroup],
    ) -> None:
        self._state, self._queue, self._group = state, queue, group
        self._send, self._note = send, note

    def _pass_on(self, frame: bytes) -> None:
        if self._state.phase is not NodeRunPhase.ENDED:
            self._send(frame)

    def worker_wrote(self, rank: int, stream: int, data: bytes) -> None:
        """Send the output of a worker to the runner."""
        self._pass_on(frames.pack_output(rank, stream, data))

    def input_taken(self, size: int) -> None:
        """Allow the runner to send `size` more bytes of standard input."""
        self._pass_on(frames.pack_credit(frames.INPUT_ACK, size))

    def worker_exited(self, process: Process) -> None:
        """Tell the state that a worker has ended."""
        assert process.status is not None
        code = os.waitstatus_to_exitcode(process.status)
        self._queue.put(self._state.worker_ended, process, code)

    def orphans_stopped(self, names: str) -> None:
        """Tell the user which processes are stopped."""
        self._queue.put(self._note, f"stopped processes that the job left running: {names}")

    def group_ended(self, left: list[int]) -> None:
        """Tell the state that the group has ended."""
        group = self._group()
        failed = bool(group.failed() or group.unended)
        self._queue.put(self._state.group_ended, GroupEnd(left, group.may_stay(), failed))


class NodeRun:
    """One task on this node.

    Attributes:
        former: children of earlier runs that still run; this run ignores them.
        left: processes that could not be killed, as texts.
        stuck: children that end by themselves once a disk answers.
    """

    def __init__(
        self,
        loop: Loop,
        task: messages.NodeJob,
        send: Callable[[bytes], None],
        ended: Callable[[], None],
        found: FileFindings,
        around: RunContext = ALONE,
    ) -> None:
        """Prepare a task; frames are sent with `send`, and `ended` is called once.

        `found` has the results of the checks of files.
        """
        self.task = task
        kept = around.kept
        others = {*around.apart(), *(kept.pids if kept else ())}
        self.former = frozenset(processes.children()) - others
        self._apart = around.apart
        self._starting, self._started = around.starting, around.started
        self._between = around.between
        self.left: tuple[str, ...] = ()
        self.stuck: Collection[int] = ()
        self._loop = loop
        self._send = send
        self._ended = ended
        self._queue = around.queue or EventQueue()
        self._setup = NodeSetup(task, self._note, found)
        self._specs = WorkerSpecs(self._setup, self._note)
        self._group: WorkerGroup | None = None
        self._rounds: NodeRounds | None = None
        self._preloaded = self._start_preload(kept)
        context = ServiceContext(
            loop, self._setup, self._specs, send, self._note, self._on_service_stop
        )
        self._services = NodeServices(context, SERVICES)
        self._calls = Calls(loop)
        self._state = NodeRunState(
            self, elastic=task.has_rounds, preloads=self._preloaded is not None
        )
        self._news = GroupNews(self._state, self._queue, send, self._note, lambda: self.group)

    # -- state ------------------------------------------------------------------------------

    @property
    def phase(self) -> NodeRunPhase:
        """Its phase."""
        return self._state.phase

    @property
    def looks(self) -> bool:
        """True if processes left by ended jobs are yet to be looked for."""
        return self._state.looks

    @property
    def leaves_background(self) -> bool:
        """True if background processes of the workers may stay."""
        return self._state.leaves_background

    @property
    def kept(self) -> Preloader | None:
        """The preloader for the next run of a held node."""
        return self._preloaded.kept if self._preloaded and self.task.held else None

    @property
    def active(self) -> bool:
        """True if processes of the run may still exist."""
        return self.phase in {NodeRunPhase.RUNNING, NodeRunPhase.DISMISSING}

    @property
    def workers(self) -> Sequence[Process]:
        """The workers that were started last."""
        return self._group.processes if self._group is not None else ()

    def hello(self) -> messages.Hello:
        """Return this node's HELLO."""
        fields = self._services.hello_fields()
        return self._setup.hello()._replace(**fields)

    # -- events -----------------------------------------------------------------------------

    def open_to_store(self) -> None:
        """Stop listening on the master port, so that rank 0's store can, and for other nodes."""
        self._setup.open_to_store()
        self._services.store_opened()

    def tell_peers(self, body: bytes) -> None:
        """Tell a role's workers, now and at later starts, where the other roles' workers are.

        Raises:
            BadFrame: the body is invalid.
        """
        from ...control.role_messages import RolePeers

        peers = messages.unpack(RolePeers, body).peers
        if self.phase in {NodeRunPhase.PREPARED, NodeRunPhase.RUNNING}:
            self._setup.tell_peers(peers)

    def start(self, start: messages.Start, *, looks: bool = False) -> None:
        """Start the workers, or the agent that decides when they start.

        With `looks`, then look for processes left by ended jobs.
        """
        self._queue.put(self._state.started, start, looks=looks)

    def stop_leftovers(self) -> list[int]:
        """Kill processes left by this job; return those left by other jobs that have ended.

        A node that rejoins a job has a new node launcher.
        """
        found, job_id = leftovers.leftovers(), os.fsencode(self.task.job_id)
        others = [pid for pid in found if leftovers.variable(pid, b"DSRUN_JOB_ID") != job_id]
        if found != others:
            from ..machine.job_processes import kill_left

            killed = ", ".join(kill_left(self.task.job_id))
            self._note(f"killed leftovers of an earlier node launcher of this job: {killed}")
        return others

    def _name_leftovers(self, found: Collection[int]) -> None:
        if self.phase is not NodeRunPhase.RUNNING:
            return
        for pid in leftovers.leftovers():
            if pid in found:
                self._note(
                    f"left over on {self.task.host}: pid {pid} of a dsrun job that has ended"
                )

    def receive(self, kind: int, body: bytes) -> None:
        """Handle a frame of the runner; ignore one that comes late.

        Raises:
            BadFrame: the frame is invalid in this run.
        """
        if self.phase in {NodeRunPhase.DISMISSING, NodeRunPhase.ENDED}:
            return
        if kind in frames.TO_ROUNDS:
            if self._rounds is None:
                raise frames.BadFrame("there are no rounds")
            self._rounds.handlers[kind](body)
        elif kind == frames.CREDIT and self._group is not None:
            self._group.grant(frames.unpack_credit(body))
        elif kind == frames.INPUT:
            self._queue.put(self._state.input_came, body)
        else:
            self._services.receive(kind, body)

    def signal_all(self, number: int) -> None:
        """Pass a signal to every worker."""
        self._queue.put(self._state.signal_came, number)

    def stop(self, number: int, grace: float, *, reason: str = "", delivered: bool = False) -> None:
        """Stop the workers and start no other round; a run without workers ends at once.

        With `delivered`, the workers have already got the signal.
        """
        how = number, grace
        self._queue.put(self._state.stopped, *how, reason=reason, delivered=delivered)

    def stop_without_runner(self, reason: str) -> None:
        """Continue without the runner: stop the workers and discard their output."""
        if self._group is not None:
            self._group.grant(frames.MOST)
        self._services.abandoned()
        self.stop(signal.SIGTERM, self.task.last_grace, reason=reason)

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each child by pid."""
        self._queue.put(self._reap, reaped)

    def _reap(self, reaped: Mapping[int, int]) -> None:
        for one in (self._preloaded, self._group, self._specs.files, self._calls):
            if one is not None:
                one.on_reaped(reaped)

    def close(self) -> None:
        """Close all its resources at once, as another run follows."""
        self._state.close()

    # -- workers ----------------------------------------------------------------------------

    def _start_preload(self, kept: Preloader | None) -> PreloadedWorkers | None:
        """Start the imports of a preloader while the other nodes prepare."""
        if not self.task.workers.preload and kept is None:
            return None
        from ...features.preload.node_workers import PreloadedWorkers

        return PreloadedWorkers(self._loop, self._setup, self._note, kept)

    def _excluded(self) -> set[int]:
        """Return the children that do not belong to the group of workers."""
        agents = () if self._rounds is None else self._rounds.agents
        return {*self._not_ours(), *agents, *self._services.pids}

    def _not_ours(self) -> set[int]:
        """Return the children that outlive this run, or that it ends last."""
        preloaded = () if self._preloaded is None else self._preloaded.pids
        own = self._specs.files.pids | self._calls.pids
        return {*self.former, *self._apart(), *preloaded, *own}

    def _on_service_stop(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text, signal.SIGKILL)))
        self.stop(signal.SIGTERM, self.task.supervision.grace, reason=text)

    # -- decisions of its state (`NodeRunActions`) -------------------------------------------

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    @property
    def group(self) -> WorkerGroup:
        """The workers that were started last."""
        assert self._group is not None
        return self._group

    @property
    def rounds(self) -> NodeRounds:
        """The rounds of an elastic job."""
        assert self._rounds is not None
        return self._rounds

    @property
    def preloader(self) -> PreloadedWorkers:
        """The preloader, from which workers start."""
        assert self._preloaded is not None
        return self._preloaded

    def start_rounds(self, start: messages.Start) -> None:
        """Start the agent of an elastic job."""
        from ...features.elastic.node_rounds import NodeRounds

        told = self._send, self._state, self._calls, self._queue
        self._rounds = NodeRounds(self._loop, self._setup, start, *told)
        self._rounds.start()

    def preload(self, start: messages.Start) -> None:
        """Prepare the preloader for these workers."""
        then = partial(self._queue.put, self._state.preloaded, start)
        self.preloader.prepare(len(start.slots), then)

    def flush_signals(self, start: messages.Start) -> None:
        """Start the workers once earlier signals, and their consequences here, were handled."""
        self._starting()
        self._queue.put(self._queue.put, self._state.workers_due, start)

    def start_group(self, start: messages.Start, early: Sequence[bytes]) -> None:
        """Start the workers, and pass them this standard input."""
        policy = StopPolicy(self._setup.program.no_python, self.task.supervision.allow_background)
        credit = start.credit if self._group is None else self._group.credit
        one = spawn if self._preloaded is None else self._preloaded.spawn
        self._group = group = WorkerGroup(
            self._loop, policy, self._news, self._excluded, one, credit, self._queue
        )
        try:
            specs, logs = self._specs.make(start)
            starting = StartingWorkers(
                self.task, self._setup.log_folder, lambda: [one.fd for one in group.pumps.values()]
            )
            with (
                self._services.outfitted(specs, start) as given,
                outfitted(given, starting) as every,
            ):
                group.start(every, logs, self._between)
        except (SpawnFailed, OSError, ValueError, DsrunError) as error:
            rank = start.first_rank + (start.only or 0) + len(group.processes)
            why = f"{in_words(error)}{limit_met(error)}"
            self._queue.put(self._state.not_started, start, rank, why)
            return
        self._started()
        pids = tuple(one.pid for one in group.processes)
        ranks = tuple(one.spec.rank for one in group.processes)
        self._send(messages.pack(frames.STARTED, messages.WorkersStarted(ranks, pids)))
        self._services.started(start, group)
        if self._preloaded is not None:
            self._preloaded.started(len(specs))
        for data in early:
            group.feed(data)

    def look_for_leftovers(self) -> None:
        """Name the processes of ended jobs that persist; kill those of this job.

        If an engine or a scheduler kills all processes of a job one by one, the last ones run
        without their guard for a moment.
        """
        if others := self.stop_leftovers():
            self._loop.call_later(CONFIRM, lambda: self._name_leftovers(others))

    def report_exit(self, process: Process, code: int) -> None:
        """Report the end of a worker to the runner, with its cause if known."""
        rank = process.spec.rank
        self._services.exited(process)
        now, causes = system.monotonic(), self._services.evidence(process, code)
        ended = messages.WorkerExit(rank, process.pid, code, process.signalled, now, *causes)
        self._send(messages.pack(frames.EXIT, ended))

    def report_not_started(self, rank: int, reason: str) -> None:
        """Report the worker that did not start as one that exited with 126, as shells do."""
        text = f"not started: {reason}"
        failed = messages.WorkerExit(rank, 0, NOT_EXECUTED, False, system.monotonic(), text)
        self._send(messages.pack(frames.EXIT, failed))

    def find_failures(self) -> None:
        """Read the error files and the last output of failed workers."""
        from .failures import find

        found = self.group.failed(), self.group.failures()
        find(self._calls, *found, self._note, self._queue.later(self._state.failures_found))

    def close_rounds(self) -> None:
        """Close the agent."""
        self.rounds.close(self._queue.later(self._state.rounds_closed))

    def kill_agent(self) -> None:
        """Kill all processes that the agent has started."""
        self._rounds = None
        self._group = WorkerGroup(
            self._loop, StopPolicy(), self._news, self._not_ours, queue=self._queue
        )
        self._group.stop(signal.SIGKILL, 0)

    def finish_preloader(self) -> None:
        """Close the preloader, or keep the part that a later run needs."""
        self.preloader.finish(self._queue.later(self._state.preloader_gone))

    def release(self) -> None:
        """Close all its resources."""
        for one in (self._setup, self._specs, self._services, self._calls):
            one.close()
        if self._preloaded is not None:
            self._preloaded.close()

    def report_end(self, left: Sequence[int], details: FailureDetails, reason: str) -> None:
        """Close all its resources, and report the end to the runner."""
        self.left = tuple(map(processes.stuck, left))
        self.stuck = self._specs.files.stuck | self._calls.stuck
        self.release()  # first: the next job may start as soon as the end is reported
        done = messages.Done(self.left, **details._asdict(), reason=reason)
        self._send(messages.pack(frames.DONE, done))
        self._ended()
