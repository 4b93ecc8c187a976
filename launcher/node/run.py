"""One program on this node, from JOB to DONE: its checks, its workers, and what they leave."""

from __future__ import annotations

import os
import signal
import time
from contextlib import nullcontext
from enum import Enum
from functools import partial

from ..common.errors import DsrunError
from ..control import frames, messages
from . import diagnosis, leftovers, processes
from .workers.events import Ended, Exited, InputTaken, OrphansStopped, Output
from .workers.group import FailureDetails, StopPolicy, WorkerGroup
from .workers.prepare import NodeSetup
from .workers.spawn import SpawnFailed, spawn
from .workers.worker_specs import WorkerSpecs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from ..common.loop import Loop
    from .elastic.events import RoundsEvent
    from .elastic.rounds import NodeRounds
    from .elastic.warm_workers import WarmWorkers
    from .port_watch import PortWatch
    from .probes import Probes
    from .shards import QueueLines
    from .workers.events import GroupEvent
    from .workers.observed_affinity import AffinityWatch
    from .workers.spawn import Process, WorkerSpec

ROUND_FRAMES = (frames.ROUND, frames.CHANGE, frames.NOTICE)
"""What the runner sends to a node of an elastic job."""

UNLIMITED = 1 << 62
"""Credit for output that is discarded."""


class Phase(Enum):
    """The phase of a run; phases only go forward.

    Attributes:
        PREPARED: its checks are made; a port may be reserved for it.
        RUNNING: its workers run, or an elastic job's agent does.
        DISMISSING: its workers are gone; the agent is being ended.
        ENDED: nothing of it is left here, and the runner has been told.
    """

    PREPARED = 1
    RUNNING = 2
    DISMISSING = 3
    ENDED = 4


class NodeRun:
    """One task on this node.

    Attributes:
        former: children that earlier runs have left running; this run leaves them alone.
        left: processes that could not be ended, as texts.
        leaves_background: whether processes that it has left running may stay.
    """

    def __init__(
        self,
        loop: Loop,
        task: messages.Task,
        send: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> None:
        """Make every check for a task; frames are sent with `send`, and `ended` is called once."""
        self.task = task
        self.phase = Phase.PREPARED
        self.former = frozenset(processes.children())
        self.left: tuple[str, ...] = ()
        self.leaves_background = False
        self._loop = loop
        self._send = send
        self._ended = ended
        self._setup = NodeSetup(task, self._note)
        self._specs = WorkerSpecs(self._setup, self._note)
        self._group: WorkerGroup | None = None
        self._rounds: NodeRounds | None = None
        self._warm: WarmWorkers | None = None
        self._probes: Probes | None = None
        self._queues: QueueLines | None = None
        self._port_watch: PortWatch | None = None
        self._affinity: AffinityWatch | None = None
        self._failures = FailureDetails({}, {}, {})
        self._unended: list[int] = []
        self._reason = ""
        self._oom_kills = 0

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
        return self._setup.hello()

    def open_to_store(self) -> None:
        """Stop listening on the master port, so that rank 0's store can."""
        self._setup.open_to_store()

    def start(self, start: messages.Start) -> None:
        """Start the workers, or the agent that decides when they start."""
        self.phase = Phase.RUNNING
        self._oom_kills = diagnosis.out_of_memory_kills()
        if self.task.elastic:
            self._start_rounds(start)
        else:
            self._start_workers(start)
        for text in leftovers.leftovers():
            self._note(f"left over on {self.task.host}: {text}")

    def receive(self, kind: int, body: bytes) -> None:
        """Handle a frame of the runner; ignore one that comes late.

        Raises:
            BadFrame: the frame is not valid in this run.
        """
        if self.phase in {Phase.DISMISSING, Phase.ENDED}:
            return
        if kind in ROUND_FRAMES:
            if self._rounds is None:
                raise frames.BadFrame("there are no rounds")
            self._rounds.handlers[kind](body)
        elif kind == frames.PROBE:
            self._probe(messages.unpack(messages.Probe, body))
        elif kind == frames.CREDIT and self._group is not None:
            self._group.grant(frames.unpack_count(body))
        elif kind == frames.INPUT and self._group is not None:
            self._group.feed(body)
        elif kind == frames.ANSWER and self._queues is not None:
            self._queues.answer(*frames.unpack_answer(body))

    def _probe(self, message: messages.Probe) -> None:
        """Answer which addresses of another node can be reached."""
        if self._probes is None:
            from .probes import Probes

            self._probes = Probes(self._loop, self._send)
        self._probes.begin(message)

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
            self._finish([])
        elif self.phase is Phase.RUNNING:
            self._stop_running(number, grace, delivered=delivered)

    def abandon(self, reason: str) -> None:
        """Continue without the runner: stop the workers and discard their output."""
        if self._group is not None:
            self._group.grant(UNLIMITED)
        if self._queues is not None:
            self._queues.close()
        self.stop(signal.SIGTERM, self.task.last_grace, reason=reason)

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        if self._group is not None:
            self._group.on_reaped(reaped)

    def close(self) -> None:
        """Release everything that was reserved or opened for it."""
        self.phase = Phase.ENDED
        opened = (self._setup, self._specs, self._queues, self._port_watch, self._warm)
        for one in (*opened, self._probes):
            if one is not None:
                one.close()
        if self._affinity is not None:
            self._affinity.finish()

    # -- workers ----------------------------------------------------------------------------

    def _start_workers(self, start: messages.Start) -> None:
        policy = StopPolicy(self._setup.program.no_python, self.task.allow_background)
        credit = start.credit if self._group is None else self._group.credit
        one = spawn if self._warm is None else self._warm.spawn
        self._group = group = WorkerGroup(
            self._loop, policy, self._on_group_event, self._excluded, one
        )
        try:
            specs, logs = self._specs.make(start)
            with (
                self._with_queues(specs, start.generation) as given,
                self._with_calls(given, group) as called,
            ):
                group.start(called, logs, credit)
        except (SpawnFailed, OSError, ValueError, DsrunError) as error:
            self._cannot_start(group, start, str(error))
            return
        pids = tuple(one.pid for one in group.processes)
        ranks = tuple(one.spec.rank for one in group.processes)
        self._send(messages.pack(frames.STARTED, messages.Started(ranks, pids)))
        self._watch_port(start.master_port)
        self._watch_affinity(start)
        if self._warm is not None:
            self._warm.fill(specs)

    def _cannot_start(self, group: WorkerGroup, start: messages.Start, reason: str) -> None:
        """Report the worker that did not start as one that exited with 126, as shells do."""
        rank = start.first_rank + (start.only or 0) + len(group.processes)
        failed = messages.Exit(rank, 0, 126, False, time.monotonic(), f"not started: {reason}")
        self._send(messages.pack(frames.EXIT, failed))
        if self._rounds is not None:
            for missing in range(rank, start.first_rank + len(start.slots)):
                self._rounds.exited(missing, 126)
        # Not at once: the caller that requested these workers does not know yet that they failed.
        self._loop.call_later(0.0, lambda: group.stop(signal.SIGTERM, 0))

    def _with_queues(
        self, specs: Sequence[WorkerSpec], generation: int
    ) -> AbstractContextManager[Sequence[WorkerSpec]]:
        """Give the workers lines to the shard queues, if the job has any."""
        if not self.task.shard_queue:
            return nullcontext(specs)
        if self._queues is None:
            from .shards import QueueLines

            self._queues = QueueLines(self._loop, self._send, self._note)
        return self._queues.given(specs, generation)

    def _with_calls(
        self, specs: Sequence[WorkerSpec], group: WorkerGroup
    ) -> AbstractContextManager[Sequence[WorkerSpec]]:
        """Give the workers the function that they call, if the job is one."""
        if not self.task.payload:
            return nullcontext(specs)
        from .workers.calls import given

        return given(specs, self.task.payload, lambda: [one.fd for one in group.pumps.values()])

    def _excluded(self) -> set[int]:
        """Return the children that do not belong to the group of workers."""
        agents = () if self._rounds is None else self._rounds.agents
        warm = [] if self._warm is None else self._warm.pids
        probes = [] if self._probes is None else self._probes.pids
        return {*self.former, *agents, *warm, *probes}

    def _watch_port(self, port: int) -> None:
        """Watch which program listens on the port, if rank 0 is here and has the store itself."""
        ranks = {process.spec.rank: process for process in self.workers}
        if (rank0 := ranks.get(0)) and self.task.rendezvous is None:
            from .port_watch import PortWatch

            self._port_watch = PortWatch(self._loop, port, rank0, self._on_port_taken)

    def _on_port_taken(self, text: str) -> None:
        """End the job: the workers would connect to another user's program."""
        self._send(messages.pack(frames.NOTE, messages.Note(text, signal.SIGKILL)))
        self.stop(signal.SIGTERM, self.task.grace, reason=text)

    def _watch_affinity(self, start: messages.Start) -> None:
        """Report what the workers are bound to, if requested."""
        if not self._setup.policy.report:
            return
        from .workers.observed_affinity import AffinityWatch, placed

        bound = self._specs.bound(start, self.workers)

        def report(values: Sequence[tuple[str, str]]) -> None:
            workers = placed(bound.workers, values)
            self._send(messages.pack(frames.BOUND, bound._replace(workers=workers)))

        self._affinity = AffinityWatch(self._loop, self.workers, report)

    # -- rounds -----------------------------------------------------------------------------

    def _start_rounds(self, start: messages.Start) -> None:
        from .elastic.rounds import NodeRounds

        if self.task.warm:
            from .elastic import commands
            from .elastic.warm_workers import WarmWorkers

            self._warm = WarmWorkers(self._loop, partial(commands.warm_worker, self._setup))
        self._rounds = NodeRounds(self._loop, self._setup, start, self._send, self._on_rounds_event)
        self._rounds.begin()

    def _on_rounds_event(self, event: RoundsEvent) -> None:
        from .elastic import events

        match event:
            case events.StartWorkers(start):
                self._start_workers(start)
            case events.StopWorkers(number, grace) if self._group is not None:
                self._group.stop(number, grace)
            case events.SignalWorkers(number):
                self.signal_all(number)
            case events.RoundsEnded(reason):
                self.stop(signal.SIGTERM, 0, reason=reason)

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
                self._send(frames.pack_count(frames.TOOK, size))
            case OrphansStopped(names):
                self._note(f"left running by the job, stopped: {names}")
            case Ended(left):
                self._on_group_end(left)

    def _on_exit(self, process: Process) -> None:
        assert process.status is not None
        rank, code = process.spec.rank, os.waitstatus_to_exitcode(process.status)
        if self._queues is not None:
            self._queues.ended(rank)
        hint = diagnosis.hint(-code, self._oom_kills) or self._port_problem(process)
        ended = messages.Exit(rank, process.pid, code, process.signalled, time.monotonic(), hint)
        self._send(messages.pack(frames.EXIT, ended))
        if self._rounds is not None:
            self._rounds.exited(rank, code)

    def _port_problem(self, ended: Process) -> str:
        watch = self._port_watch
        return watch.problem() if watch and ended.spec.rank == 0 and ended.status else ""

    def _note(self, text: str) -> None:
        self._send(messages.pack(frames.NOTE, messages.Note(text)))

    # -- the end ----------------------------------------------------------------------------

    def _stop_running(self, number: int, grace: float, *, delivered: bool) -> None:
        if self._warm is not None:
            self._warm.close()
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
        if self.phase is Phase.RUNNING and self._group is not None:
            self._failures = self._group.failures()
            self.leaves_background = self._rounds is None and self._group.may_stay()
        self._unended += left
        if self._rounds is not None:
            self._dismiss(self._rounds)
        else:
            self._finish(self._unended)

    def _dismiss(self, rounds: NodeRounds) -> None:
        """End the agent of an elastic job, with all that it has started."""
        self.phase = Phase.DISMISSING
        rounds.close()
        self._rounds = None
        self._group = WorkerGroup(
            self._loop, StopPolicy(), self._on_group_event, lambda: self.former
        )
        self._group.stop(signal.SIGKILL, 0)

    def _finish(self, left: list[int]) -> None:
        """End the run and report what is left."""
        self.left = tuple(map(processes.stuck, left))
        self.close()  # first: the next job may start as soon as the end is reported
        done = messages.Done(self.left, **self._failures._asdict(), reason=self._reason)
        self._send(messages.pack(frames.DONE, done))
        self._ended()
