"""One program on this node, from JOB to DONE: its checks, its workers, and what they leave."""

from __future__ import annotations

import os
import signal
from enum import Enum
from functools import partial

from ..common import system
from ..common.errors import DsrunError, in_words
from ..common.values import NamedTuple
from ..control import frames, messages
from . import leftovers, processes
from .blocking import Calls
from .services import Services
from .watches import Watches
from .workers.events import Ended, Exited, InputTaken, OrphansStopped, Output
from .workers.group import FailureDetails, StopPolicy, WorkerGroup
from .workers.prepare import NodeSetup
from .workers.spawn import SpawnFailed, spawn
from .workers.worker_specs import WorkerSpecs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ..common.loop import Loop
    from .elastic.events import RoundsEvent
    from .elastic.rounds import NodeRounds
    from .preload.preloaded_workers import PreloadedWorkers
    from .preload.preloader import Preloader
    from .workers.events import GroupEvent
    from .workers.prepare import Found
    from .workers.spawn import Process


CONFIRM = 2.0
"""Seconds until a process that seems to be left over has to be there still."""


class Phase(Enum):
    """The phase of a run; phases only go forward.

    Attributes:
        PREPARED: its checks are made; a port may be reserved for it.
        RUNNING: its workers run, or an elastic job's agent does.
        DISMISSING: its workers are gone; the agent and the preloader are being ended.
        ENDED: nothing of it is left here, and the runner has been told.
    """

    PREPARED = 1
    RUNNING = 2
    DISMISSING = 3
    ENDED = 4


def _nothing() -> None:
    """Do nothing."""


class Surroundings(NamedTuple):
    """What a run has from the session that it is part of.

    Attributes:
        kept: the preloader of an earlier run on this line.
        apart: returns the children of this process that belong to no run.
        starting: called before workers start; it may stop the run.
        started: called when they have been started.
    """

    kept: Preloader | None = None
    apart: Callable[[], Collection[int]] = tuple
    starting: Callable[[], None] = _nothing
    started: Callable[[], None] = _nothing


ALONE = Surroundings()


class NodeRun:
    """One task on this node.

    Attributes:
        former: children that earlier runs have left running; this run leaves them alone.
        left: processes that could not be ended, as texts.
        stuck: children that end by themselves once a disk answers.
        leaves_background: whether processes that it has left running may stay.
    """

    def __init__(
        self,
        loop: Loop,
        task: messages.NodeJob,
        send: Callable[[bytes], None],
        ended: Callable[[], None],
        found: Found,
        around: Surroundings = ALONE,
    ) -> None:
        """Prepare a task; frames are sent with `send`, and `ended` is called once.

        `found` is what the checks of files have found.
        """
        self.task = task
        self.phase = Phase.PREPARED
        kept = around.kept
        others = {*around.apart(), *(kept.pids if kept else ())}
        self.former = frozenset(processes.children()) - others
        self._apart = around.apart
        self._starting, self._started = around.starting, around.started
        self.left: tuple[str, ...] = ()
        self.stuck: Collection[int] = ()
        self.leaves_background = False
        self._loop = loop
        self._send = send
        self._ended = ended
        self._setup = NodeSetup(task, self._note, found)
        self._specs = WorkerSpecs(self._setup, self._note)
        self._group: WorkerGroup | None = None
        self._rounds: NodeRounds | None = None
        self._preloaded = self._preload(kept)
        self._services = Services(loop, send, self._note, shard_queue=task.workers.shard_queue)
        self._watches = Watches(loop, send, self._on_port_taken)
        self._failures = FailureDetails({}, {}, {}, {})
        self._calls = Calls(loop)
        self._unended: list[int] = []
        self._reason = ""
        self._early_input: list[bytes] = []

    @property
    def kept(self) -> Preloader | None:
        """The preloader for the next run of a held node."""
        return self._preloaded.kept if self._preloaded and self.task.held else None

    @property
    def active(self) -> bool:
        """Whether processes of it may be running."""
        return self.phase in {Phase.RUNNING, Phase.DISMISSING}

    @property
    def workers(self) -> Sequence[Process]:
        """The workers that were started last."""
        return self._group.processes if self._group is not None else ()

    def hello(self) -> messages.Hello:
        """Return this node's HELLO."""
        return self._setup.hello(self._services.network(self._setup))

    def open_to_store(self) -> None:
        """Stop listening on the master port, so that rank 0's store can, and for other nodes."""
        self._setup.open_to_store()
        self._services.started(elastic=self.task.has_rounds)

    def tell_peers(self, body: bytes) -> None:
        """Tell the workers of a role, and those that start later, where those of others are.

        Raises:
            BadFrame: it is not valid.
        """
        from ..control.role_messages import RolePeers

        peers = messages.unpack(RolePeers, body).peers
        if self.phase in {Phase.PREPARED, Phase.RUNNING}:
            self._setup.tell_peers(peers)

    def start(self, start: messages.Start) -> None:
        """Start the workers, or the agent that decides when they start."""
        self.phase = Phase.RUNNING
        if self.task.has_rounds:
            self._start_rounds(start)
        else:
            self._start_workers(start)

    def look_for_leftovers(self) -> None:
        """Name what jobs that have ended have left, and is still there soon; end what this one has.

        If all processes of a job are killed one by one, as engines and schedulers do, those that
        are killed last are there without their guard for a moment. A node that has come back to a
        job has another node launcher than before.
        """
        found, job_id = leftovers.leftovers(), os.fsencode(self.task.job_id)
        others = [pid for pid in found if leftovers.variable(pid, b"DSRUN_JOB_ID") != job_id]
        if others:
            self._loop.call_later(CONFIRM, lambda: self._name_leftovers(others))
        if found != others:
            from .job_processes import kill_left

            killed = ", ".join(kill_left(self.task.job_id))
            self._note(f"killed what an earlier node launcher of this job had left: {killed}")

    def _name_leftovers(self, found: Collection[int]) -> None:
        if self.phase is not Phase.RUNNING:
            return
        for pid in leftovers.leftovers():
            if pid in found:
                self._note(
                    f"left over on {self.task.host}: pid {pid} of a dsrun job that has ended"
                )

    def receive(self, kind: int, body: bytes) -> None:
        """Handle a frame of the runner; ignore one that comes late.

        Raises:
            BadFrame: the frame is not valid in this run.
        """
        if self.phase in {Phase.DISMISSING, Phase.ENDED}:
            return
        if kind in frames.TO_ROUNDS:
            if self._rounds is None:
                raise frames.BadFrame("there are no rounds")
            self._rounds.handlers[kind](body)
        elif kind == frames.PROBE:
            self._services.probe(messages.unpack(messages.Probe, body))
        elif kind == frames.REACH:
            self._services.reach(body, self._setup)
        elif kind == frames.CREDIT and self._group is not None:
            self._group.grant(frames.unpack_count(body))
        elif kind == frames.INPUT:
            self._feed(body)
        elif kind == frames.SHARD_ANSWER:
            self._services.answer(*frames.unpack_answer(body))

    def _feed(self, data: bytes) -> None:
        """Pass on standard input, or keep it until the workers have been started."""
        if self._preloaded is not None and self._preloaded.waiting:
            self._early_input.append(data)
        elif self._group is not None:
            self._group.feed(data)

    def signal_all(self, number: int) -> None:
        """Pass a signal to every worker."""
        if self._group is not None and self.phase is Phase.RUNNING:
            self._group.signal_all(number)

    def stop(self, number: int, grace: float, *, reason: str = "", delivered: bool = False) -> None:
        """Stop the workers and start no other round; a run without workers ends at once.

        With `delivered`, the workers have already got the signal.
        """
        self._reason = reason or self._reason
        if self.phase is Phase.PREPARED:
            self._finish()
        elif self.phase is Phase.RUNNING:
            self._stop_running(number, grace, delivered=delivered)

    def abandon(self, reason: str) -> None:
        """Continue without the runner: stop the workers and discard their output."""
        if self._group is not None:
            self._group.grant(frames.MOST)
        self._services.close_queues()
        self.stop(signal.SIGTERM, self.task.last_grace, reason=reason)

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for one in (self._preloaded, self._group, self._specs.files, self._calls):
            if one is not None:
                one.on_reaped(reaped)

    def close(self) -> None:
        """Release everything that was reserved or opened for it."""
        self.phase = Phase.ENDED
        for one in (self._setup, self._specs, self._services, self._watches, self._calls):
            one.close()
        if self._preloaded is not None:
            self._preloaded.close()

    # -- workers ----------------------------------------------------------------------------

    def _preload(self, kept: Preloader | None) -> PreloadedWorkers | None:
        """Let a preloader begin with its imports while the other nodes get ready."""
        if not self.task.workers.preload and kept is None:
            return None
        from .preload.preloaded_workers import PreloadedWorkers

        return PreloadedWorkers(self._loop, self._setup, self._note, kept)

    def _start_workers(self, start: messages.Start) -> None:
        if self._preloaded is None:
            self._start_at_once(start)
        else:
            self._preloaded.prepare(len(start.slots), partial(self._start_at_once, start))

    def _start_at_once(self, start: messages.Start) -> None:
        self._starting()
        if self.phase is not Phase.RUNNING or (self._rounds is not None and self._rounds.over):
            return
        policy = StopPolicy(self._setup.program.no_python, self.task.supervision.allow_background)
        credit = start.credit if self._group is None else self._group.credit
        one = spawn if self._preloaded is None else self._preloaded.spawn
        self._group = group = WorkerGroup(
            self._loop, policy, self._on_group_event, self._excluded, one, credit
        )
        try:
            specs, logs = self._specs.make(start)
            with (
                self._services.with_queues(specs, start.generation) as given,
                self._services.with_calls(given, self.task.payload, group) as called,
                self._services.with_debugger(called, self.task) as every,
            ):
                group.start(every, logs)
        except (SpawnFailed, OSError, ValueError, DsrunError) as error:
            self._cannot_start(group, start, in_words(error))
            return
        self._started()
        pids = tuple(one.pid for one in group.processes)
        ranks = tuple(one.spec.rank for one in group.processes)
        self._send(messages.pack(frames.STARTED, messages.Started(ranks, pids)))
        self._watches.started(self._setup, start.master_port, group)
        if self._setup.policy.report:
            self._watches.watch_affinity(self._specs.bound(start, group.processes), group.processes)
        if self._preloaded is not None:
            self._preloaded.started(len(specs))
        for data in self._early_input:
            group.feed(data)
        self._early_input.clear()

    def _cannot_start(self, group: WorkerGroup, start: messages.Start, reason: str) -> None:
        """Report the worker that did not start as one that exited with 126, as shells do."""
        rank = start.first_rank + (start.only or 0) + len(group.processes)
        failed = messages.Exit(rank, 0, 126, False, system.monotonic(), f"not started: {reason}")
        self._send(messages.pack(frames.EXIT, failed))
        if self._rounds is not None:
            for missing in range(rank, start.first_rank + len(start.slots)):
                self._rounds.exited(missing, 126)
        # Not at once: the caller that requested these workers does not know yet that they failed.
        self._loop.call_later(0.0, lambda: group.stop(signal.SIGTERM, 0))

    def _excluded(self) -> set[int]:
        """Return the children that do not belong to the group of workers."""
        agents = () if self._rounds is None else self._rounds.agents
        return {*self._not_ours(), *agents, *self._services.pids}

    def _not_ours(self) -> set[int]:
        """Return the children that outlive this run, or that it ends last."""
        preloaded = () if self._preloaded is None else self._preloaded.pids
        own = self._specs.files.pids | self._calls.pids
        return {*self.former, *self._apart(), *preloaded, *own}

    def _on_port_taken(self, text: str) -> None:
        """End the job: the workers would connect to another user's program."""
        self._send(messages.pack(frames.NOTE, messages.Note(text, signal.SIGKILL)))
        self.stop(signal.SIGTERM, self.task.supervision.grace, reason=text)

    # -- rounds -----------------------------------------------------------------------------

    def _start_rounds(self, start: messages.Start) -> None:
        from .elastic.rounds import NodeRounds

        heard = self._on_rounds_event
        self._rounds = NodeRounds(self._loop, self._setup, start, self._send, heard, self._calls)
        self._rounds.begin()

    def _on_rounds_event(self, event: RoundsEvent) -> None:
        from .elastic import events

        match event:
            case events.StartWorkers(start):
                self._start_workers(start)
            case events.StopWorkers(number, grace):
                self._stop_round(number, grace)
            case events.SignalWorkers(number):
                self.signal_all(number)
            case events.RoundsEnded(reason):
                self.stop(signal.SIGTERM, 0, reason=reason)

    def _stop_round(self, number: int, grace: float) -> None:
        """Stop the workers of a round; those that wait for the preloader are not started."""
        if self._preloaded is not None and self._preloaded.waiting:
            self._preloaded.cancel()
            # Not at once: the caller has not taken note yet that they are being stopped.
            assert self._rounds is not None
            self._loop.call_later(0.0, partial(self._rounds.not_started, number))
        elif self._group is not None:
            self._group.stop(number, grace)

    # -- events of the workers --------------------------------------------------------------

    def _on_group_event(self, event: GroupEvent) -> None:
        if self.phase is Phase.ENDED:
            return  # of a worker that could not be ended
        match event:
            case Output(rank, stream, data):
                self._send(frames.pack_output(rank, stream, data))
            case Exited(process):
                self._on_exit(process)
            case InputTaken(size):
                self._send(frames.pack_count(frames.INPUT_ACK, size))
            case OrphansStopped(names):
                self._note(f"left running by the job, stopped: {names}")
            case Ended(left):
                self._on_group_end(left)

    def _on_exit(self, process: Process) -> None:
        assert process.status is not None
        rank, code = process.spec.rank, os.waitstatus_to_exitcode(process.status)
        self._services.ended(rank)
        now, causes = system.monotonic(), self._watches.causes(process, code)
        ended = messages.Exit(rank, process.pid, code, process.signalled, now, *causes)
        self._send(messages.pack(frames.EXIT, ended))
        if self._rounds is not None:
            self._rounds.exited(rank, code)

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- the end ----------------------------------------------------------------------------

    def _stop_running(self, number: int, grace: float, *, delivered: bool) -> None:
        if self._preloaded is not None:
            self._preloaded.cancel()
        if self._rounds is not None:
            self._rounds.stop()
        if self._group is None or self._group.over:
            self._on_group_end([])
        else:
            self._group.stop(number, grace, delivered=delivered)

    def _on_group_end(self, left: list[int]) -> None:
        """Continue after a group's end: with the next round, or the agent's or this run's end."""
        if self._rounds is not None and not self._rounds.over:
            self._rounds.workers_gone()
            return
        self._unended += left
        group, was, self.phase = self._group, self.phase, Phase.DISMISSING
        if was is Phase.RUNNING and group is not None:
            self.leaves_background = self._rounds is None and group.may_stay()
            if failed := group.failed():
                from .failures import find

                find(self._calls, failed, group.failures(), self._note, self._on_failures)
                return
        self._dismiss()

    def _on_failures(self, found: FailureDetails) -> None:
        self._failures = found
        self._dismiss()

    def _dismiss(self) -> None:
        """End the agent of an elastic job, if there is one, and then the run."""
        self._rounds.close(self._end_agent) if self._rounds is not None else self._finish()

    def _end_agent(self) -> None:
        """End all that the agent has started."""
        self._rounds, heard = None, self._on_group_event
        self._group = WorkerGroup(self._loop, StopPolicy(), heard, self._not_ours)
        self._group.stop(signal.SIGKILL, 0)

    def _finish(self) -> None:
        """End the run once the preloader is gone, unless that is kept."""
        self.phase = Phase.DISMISSING
        if self._preloaded is None:
            self._report_end()
        else:
            self._preloaded.end(self._report_end)

    def _report_end(self) -> None:
        """End the run and report what is left."""
        self.left = tuple(map(processes.stuck, self._unended))
        self.stuck = self._specs.files.stuck | self._calls.stuck
        self.close()  # first: the next job may start as soon as the end is reported
        done = messages.Done(self.left, **self._failures._asdict(), reason=self._reason)
        self._send(messages.pack(frames.DONE, done))
        self._ended()
