"""Runs one role on the fleet of a job; each start is a separate run."""

from __future__ import annotations

from functools import partial

from ...common.errors import DsrunError, NodeError
from ...common.records import NamedTuple
from ...head.job.ending import fails
from ...head.job.job import RunnerJob
from ...head.job.one_program import OneProgram
from ...head.report.ending import Ending
from ...head.run import run_start
from ...head.run.events import Alarm, Exit, Lost, RanksStarted
from ...head.run.run import RunOverrides
from ...head.run.run_state import RunState
from ...head.run.run_view import RunPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.output.screen import Screen
    from ...head.run.events import RunEvent
    from ...head.run.run import Happening
    from ...head.run.run_view import ObservedRun, RunView
    from ...head.run.startup import AllReady
    from ...specs.job import JobSpec
    from ..jobs.runner_socket import RunAccess, RunHistory

    P = ParamSpec("P")


class RoleNews(NamedTuple):
    """Callbacks for the events of a role, called from the loop with the name of the role.

    Attributes:
        prepared: all nodes are ready to start workers.
        started: all workers run.
        ready: the readiness check has succeeded.
        lacks: the readiness check has not succeeded so far, for this reason.
        failing: the role has failed, and its workers are being stopped; `ended` follows.
        ended: the role has ended with this exit code; none of its workers runs.
    """

    prepared: Callable[[str], None]
    started: Callable[[str], None]
    ready: Callable[[str], None]
    lacks: Callable[[str, str], None]
    failing: Callable[[str], None]
    ended: Callable[[str, int], None]


LEFT_BEHIND = "its node launcher still had workers of the role"
"""The reason for closing a connection after a run that did not wait for its workers."""


class RoleRun:
    """Prepares, starts and stops the workers of one role.

    Attributes:
        ending: the ending of the last run; None before the first end.
        loss: the first loss of a node in the present run, in words, or "".
        leaving: the number of runs that have not ended, or whose hooks have not finished.
    """

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Screen,
        news: RoleNews,
        observe: Callable[[ObservedRun], None],
        on_left: Callable[[], None],
        owner: RunOverrides,
    ) -> None:
        """Start without a run.

        Args:
            spec: the job of the role.
            fleet: has the nodes.
            console: prints output and messages; never closed here.
            news: receives the events of the role.
            observe: called with each run before the run begins.
            on_left: called whenever all hooks have received the end of a run.
            owner: further reactions that replace the usual ones, besides those to start and end.
        """
        self.name, self.spec = spec.role, spec
        self.ending: Ending | None = None
        self.leaving = 0
        self._fleet, self._console = fleet, console
        self._news, self._observe, self._on_left = news, observe, on_left
        self._owner = owner._replace(on_ready=self._on_ready, on_over=self._finish)
        self.loss, self._published = "", b""
        self._job: RunnerJob | None = None
        self._program: OneProgram | None = None
        self._ready: AllReady | None = None
        self._watched: list[tuple[NodeConnection, Callable[[str], None]]] = []
        self._started: set[int] = set()
        self._stopped = False
        self._free_at = 0.0
        self._left_on: dict[str, str] = {}

    @property
    def view(self) -> RunView | None:
        """A snapshot of the present or last run; None before the first run."""
        return self._program.view() if self._program is not None else None

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Pass an event to the present run, if any, as `Run.handle`."""
        if self._program is not None:
            self._program.handle(happened, *args, **kwargs)

    def access(self, seen: RunHistory) -> RunAccess:
        """Return access to the present run for requests, given the history of the run."""
        assert self._program is not None
        return self._program.access(seen)

    @property
    def connections(self) -> list[NodeConnection]:
        """The connections to nodes on which the present run has not ended."""
        nodes = self.view.nodes if self.view is not None else ()
        return [node.connection for node in nodes if not node.over]

    @property
    def unseen(self) -> tuple[str, ...]:
        """Workers that may still run on nodes that spares have replaced, in words."""
        hosts = {node.host.name for node in self.spec.plan.nodes}
        return tuple(text for host, text in self._left_on.items() if host not in hosts)

    @property
    def unfinished(self) -> list[str]:
        """The names of the nodes on which workers may still run."""
        run = self.view
        waits = run is not None and run.started and not run.ending
        return [node.name for node in run.nodes if not node.over] if run and waits else []

    # -- the start --------------------------------------------------------------------------

    def prepare(self, former_ports: tuple[tuple[str, tuple[int, ...]], ...] = ()) -> None:
        """Prepare the nodes; `RoleNews.prepared` follows, or `RoleNews.ended` after a failure.

        `former_ports` are as in `JobSpec`.
        """
        spec = self.spec._replace(former_ports=former_ports)
        job = RunnerJob(spec, self._console, self._fleet.loop, self._left)
        self._job, self._program = job, None
        self._ready, self._stopped = None, False
        self.loss, self._published = "", b""
        self._started.clear()
        self.leaving += 1
        try:
            program = OneProgram(spec, self._fleet, self._console, self._owner)
        except DsrunError as error:
            self._report_end(job, Ending(self.spec.job_id, error))
            return
        self._program = program
        job.attach(program)
        # A line on missing devices is printed at the first start.
        workers = self.spec.workers._replace(expects_devices=False)
        self.spec = self.spec._replace(workers=workers)
        program.observed.observe(self._on_event)
        self._observe(program.observed)
        connections = [node.connection for node in program.view().nodes]
        lost = [one for one in connections if one.lost]
        for connection in lost:
            connection.try_again()
        for connection in connections:
            if connection.connected:
                connection.unconfirmed = connection.beats
                self._watch(program, connection)
        program.start()
        for connection in lost:
            self._fleet.reach(connection)

    def _on_ready(self, ready: AllReady) -> None:
        """Delay the start; watch for lost nodes, which the run ignores before its start."""
        program, self._ready = self._program, ready
        assert program is not None
        for node in program.view().nodes:
            if not node.over:
                connection = node.connection
                connection.returns = self.spec.elastic is not None
                self._fleet.expect_beats(connection)
                self._watch(program, connection)
        waits = self._free_at - self._fleet.loop.clock()
        if waits > 0:
            self._console.log(f"waiting {waits:.0f} s until its workers on lost nodes have exited")
        self._fleet.loop.call_later(max(waits, 0.0), lambda: self._tell_prepared(ready))

    def _tell_prepared(self, ready: AllReady) -> None:
        """Report that the nodes are ready, unless the run is no longer wanted."""
        run = self.view
        if self._ready is ready and run is not None and not run.ending:
            self._news.prepared(self.name)

    def _watch(self, program: OneProgram, connection: NodeConnection) -> None:
        """Refuse the run if this connection is lost before the start."""
        if not any(one is connection for one, _ in self._watched):
            watch = partial(self._on_early_loss, program, connection)
            connection.on_close.append(watch)
            self._watched.append((connection, watch))

    def _on_early_loss(self, program: OneProgram, connection: NodeConnection, why: str) -> None:
        _fail(program, _early(connection, why))

    def publish(self, frame: bytes, *, starts: bool = False) -> None:
        """Send PEERS to the nodes if workers run or start, unless it is unchanged."""
        run = self.view
        if run is None or run.stopping or not (run.started or starts) or frame == self._published:
            return
        self._published = frame
        for node in run.nodes:
            if not node.over:
                node.send(frame)

    def start(self) -> None:
        """Start the workers on the prepared nodes; refuse the run if a node was just lost."""
        program, watched = self._program, [connection for connection, _ in self._watched]
        assert program is not None
        self._clear_watches()
        lost = next((one for one in watched if not one.connected), None)
        if lost is not None:
            _fail(program, _early(lost, lost.lost))
        elif self._ready is not None:
            program.handle(run_start.start, self._ready)

    def _clear_watches(self) -> None:
        for connection, watch in self._watched:
            if watch in connection.on_close:
                connection.on_close.remove(watch)
        self._watched.clear()

    # -- events -----------------------------------------------------------------------------

    def _on_event(self, event: RunEvent) -> None:
        kind = type(event)
        if kind is RanksStarted:
            self._on_ranks(event.ranks)  # type: ignore[union-attr]
        elif kind in {Exit, Lost, Alarm}:
            if kind is Lost and not self.loss:
                self.loss = f"lost {event.host}: {event.reason}"  # type: ignore[union-attr]
            self._check_failure()

    def _on_ranks(self, ranks: tuple[int, ...]) -> None:
        """Count ranks that run; later rounds of an elastic role change nothing."""
        run = self.view
        assert run is not None
        self._started.update(ranks)
        if len(self._started) >= (run.plan.world_size or 0):
            self._news.started(self.name)

    def _check_failure(self) -> None:
        """Report a failure as soon as the run is stopping: the end may take a while.

        The run of an elastic role is stopping without a failure, too, once its work is done.
        """
        run = self.view
        if self._stopped or run is None:
            return
        if run.phase is RunPhase.STOPPING and fails(run):
            self._stopped = True
            self._news.failing(self.name)

    # -- the end ----------------------------------------------------------------------------

    def stop(self, number: int, *, kill: bool = False, why: str | None = None) -> None:
        """Stop the workers, or give the nodes back if none run; `RoleNews.ended` follows.

        Args:
            number: the signal for the workers.
            kill: whether to kill the remaining workers at once.
            why: the reason to report in place of a user's signal, "" for the signal itself; None
                if the end of the job is the reason.
        """
        run, self._stopped = self.view, True
        if run is None or run.ending:
            return
        if why is not None:
            run.record.stopped_by(number, why)
        if run.started:
            self.handle(RunState.stop, number, 0.0 if kill else None)
        else:
            self.handle(RunState.finish)

    def abandon(self) -> None:
        """Stop waiting for workers that still run."""
        run = self.view
        if run is not None and not run.ending:
            self.handle(RunState.abandon)

    def _finish(self) -> None:
        """Give the nodes back, and report how the run has ended."""
        job, program = self._job, self._program
        assert job is not None
        assert program is not None
        run = program.view()
        self._clear_watches()
        self._note_outliving(run)
        self._left_on |= {one.name: one.left for one in run.nodes if one.left and not one.ended}
        # A connection that was lost may be another role's by now.
        for node in program.release_nodes(lambda node: node.connection.on_event is None):
            if node.connection.connected and node.done is None:
                self._fleet.isolate(node.connection, LEFT_BEHIND)
        self._report_end(job, program.make_ending())

    def _note_outliving(self, run: RunView) -> None:
        """Record the latest time at which workers on lost nodes exit.

        The guard of a node may have reported their exit already.
        """
        ended = {node.name for node in run.nodes if node.ended}
        alive = [time for name, time in run.record.outliving.items() if name not in ended]
        seconds = max(alive) + run.spec.supervision.grace if alive else 0.0
        self._free_at = self._fleet.loop.clock() + seconds

    def _report_end(self, job: RunnerJob, ending: Ending) -> None:
        """Report the end at once, before files and programs of hooks are finished."""
        self.ending = ending
        job.finish(ending)
        self._news.ended(self.name, ending.code)

    def _left(self, _ending: Ending) -> None:
        self.leaving -= 1
        self._on_left()


def _fail(program: OneProgram, why: str) -> None:
    if not program.started and not program.ending:
        program.fail(NodeError(why))


def _early(connection: NodeConnection, reason: str) -> str:
    return f"lost {connection.name} before the start: {reason}"
