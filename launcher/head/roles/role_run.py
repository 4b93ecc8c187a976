"""One role on the fleet of a job: its runs, one after another, and what they tell."""

from __future__ import annotations

from functools import partial

from ...common.errors import DsrunError, NodeError
from ...common.values import NamedTuple
from ..job.ending import fails
from ..job.job import RunnerJob
from ..job.one_program import OneProgram
from ..report.ending import Ending
from ..run import run_start
from ..run.events import Alarm, Exit, Lost, RanksStarted
from ..run.run import RunOverrides
from ..run.run_state import RunState
from ..run.run_view import RunPhase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import ParamSpec

    from ...specs.job import JobSpec
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..job.job_socket import RunAccess, RunHistory
    from ..output.screen import Screen
    from ..run.events import RunEvent
    from ..run.run import Happening
    from ..run.run_view import ObservedRun, RunView
    from ..run.startup import AllReady

    P = ParamSpec("P")


class RoleNews(NamedTuple):
    """Calls that tell what happens to a role, by its name, from the loop.

    Attributes:
        prepared: all nodes of it are ready to start its workers.
        started: all its workers run.
        ready: the check of its readiness has succeeded.
        lacks: it has not so far, for this reason.
        failing: it has failed, and its workers are being stopped; its end follows.
        ended: nothing of it runs any more; it has ended with this exit code.
    """

    prepared: Callable[[str], None]
    started: Callable[[str], None]
    ready: Callable[[str], None]
    lacks: Callable[[str, str], None]
    failing: Callable[[str], None]
    ended: Callable[[str, int], None]


LEFT_BEHIND = "its node launcher still had workers of the role"
"""Why a connection is closed after a run that did not wait for its workers."""


class RoleRun:
    """Prepares, starts and stops the workers of one role.

    Attributes:
        name: of the role.
        spec: its job.
        ending: how its last run has ended; None before.
        loss: which node its present run has lost first, and why, in words; "" for none.
        leaving: how many of its runs have not ended, or still tell hooks of their end.
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
        """Begin without a run.

        Args:
            spec: its job.
            fleet: has its nodes.
            console: where its output and messages go; is not closed.
            news: is told what happens to the role.
            observe: called with each of its runs before it begins.
            on_left: called whenever all hooks have been told of the end of a run.
            owner: what is done in place of the usual beside start and end.
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
        """How its present run is now, or the last one; None before the first."""
        return self._program.view() if self._program is not None else None

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell its present run, if there is one, what has happened, as `Run.handle`."""
        if self._program is not None:
            self._program.handle(happened, *args, **kwargs)

    def access(self, seen: RunHistory) -> RunAccess:
        """Return the access of requests to its run, given its history."""
        assert self._program is not None
        return self._program.access(seen)

    @property
    def connections(self) -> list[NodeConnection]:
        """Those of its present run that are not lost, and where it has not ended."""
        nodes = self.view.nodes if self.view is not None else ()
        return [node.connection for node in nodes if not node.over]

    @property
    def unseen(self) -> tuple[str, ...]:
        """What may still run on nodes whose place spares have taken, in words."""
        hosts = {node.host.name for node in self.spec.plan.nodes}
        return tuple(text for host, text in self._left_on.items() if host not in hosts)

    @property
    def unfinished(self) -> list[str]:
        """The names of the nodes on which something of it may still run."""
        run = self.view
        waits = run is not None and run.started and not run.ending
        return [node.name for node in run.nodes if not node.over] if run and waits else []

    # -- the start --------------------------------------------------------------------------

    def prepare(self, former_ports: tuple[tuple[str, tuple[int, ...]], ...] = ()) -> None:
        """Have its nodes get ready; `RoleNews` tells that they are, or of its end if that fails.

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
            self._end(job, Ending(self.spec.job_id, error))
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
        program.begin()
        for connection in lost:
            self._fleet.reach(connection)

    def _on_ready(self, ready: AllReady) -> None:
        """Wait with the start; a node that is lost meanwhile is not noticed by the run."""
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
        """Tell that the nodes are ready, unless the run has been given up meanwhile."""
        run = self.view
        if self._ready is ready and run is not None and not run.ending:
            self._news.prepared(self.name)

    def _watch(self, program: OneProgram, connection: NodeConnection) -> None:
        """Give the run up if this connection is lost before the start."""
        if not any(one is connection for one, _ in self._watched):
            watch = partial(self._on_early_loss, program, connection)
            connection.on_close.append(watch)
            self._watched.append((connection, watch))

    def _on_early_loss(self, program: OneProgram, connection: NodeConnection, why: str) -> None:
        _refuse(program, _early(connection, why))

    def publish(self, frame: bytes, *, starts: bool = False) -> None:
        """Send PEERS to its nodes if its workers run or start, unless they have it."""
        run = self.view
        if run is None or run.stopping or not (run.started or starts) or frame == self._published:
            return
        self._published = frame
        for node in run.nodes:
            if not node.over:
                node.send(frame)

    def start(self) -> None:
        """Start the workers: its nodes are ready, unless one of them is being lost just now."""
        program, watched = self._program, [connection for connection, _ in self._watched]
        assert program is not None
        self._forget_watches()
        lost = next((one for one in watched if not one.connected), None)
        if lost is not None:
            _refuse(program, _early(lost, lost.lost))
        elif self._ready is not None:
            program.handle(run_start.start, self._ready)

    def _forget_watches(self) -> None:
        for connection, watch in self._watched:
            if watch in connection.on_close:
                connection.on_close.remove(watch)
        self._watched.clear()

    # -- what happens -----------------------------------------------------------------------

    def _on_event(self, event: RunEvent) -> None:
        kind = type(event)
        if kind is RanksStarted:
            self._on_ranks(event.ranks)  # type: ignore[union-attr]
        elif kind in {Exit, Lost, Alarm}:
            if kind is Lost and not self.loss:
                self.loss = f"lost {event.host}: {event.reason}"  # type: ignore[union-attr]
            self._look()

    def _on_ranks(self, ranks: tuple[int, ...]) -> None:
        """Note that workers run; in a later round of an elastic role, that does not matter."""
        run = self.view
        assert run is not None
        self._started.update(ranks)
        if len(self._started) >= (run.plan.world_size or 0):
            self._news.started(self.name)

    def _look(self) -> None:
        """Tell at once if the run is stopping because of a failure: its end may take a while.

        That of an elastic role is stopping, too, once its work is done.
        """
        run = self.view
        if self._stopped or run is None:
            return
        if run.phase is RunPhase.STOPPING and fails(run):
            self._stopped = True
            self._news.failing(self.name)

    # -- the end ----------------------------------------------------------------------------

    def stop(self, number: int, *, kill: bool = False, why: str | None = None) -> None:
        """Stop the workers, or leave the nodes if there are none; news of the end follow.

        Args:
            number: the signal for the workers.
            kill: what is left is killed at once.
            why: what is told in place of a user's signal, "" for the signal; None if not a signal
                is the reason, but the end of the job.
        """
        run, self._stopped = self.view, True
        if run is None or run.ending:
            return
        if why is not None:
            run.record.stopped_by(number, why)
        if run.started:
            self.handle(RunState.stop, number, 0.0 if kill else None)
        else:
            self.handle(RunState.end)

    def abandon(self) -> None:
        """Wait for nothing that still runs."""
        run = self.view
        if run is not None and not run.ending:
            self.handle(RunState.abandon)

    def _finish(self) -> None:
        """Give the nodes back, and tell how the run has ended."""
        job, program = self._job, self._program
        assert job is not None
        assert program is not None
        run = program.view()
        self._forget_watches()
        self._note_outliving(run)
        self._left_on |= {one.name: one.left for one in run.nodes if one.left and not one.ended}
        # A connection that was lost may be another role's by now.
        for node in program.leave(lambda node: node.connection.on_event is None):
            if node.connection.connected and node.done is None:
                self._fleet.dismiss(node.connection, LEFT_BEHIND)
        self._end(job, program.conclude())

    def _note_outliving(self, run: RunView) -> None:
        """Note when the workers on nodes that were lost have ended, at the latest.

        The guard of a node may have said already that it has ended them.
        """
        ended = {node.name for node in run.nodes if node.ended}
        alive = [time for name, time in run.record.outliving.items() if name not in ended]
        seconds = max(alive) + run.spec.supervision.grace if alive else 0.0
        self._free_at = self._fleet.loop.clock() + seconds

    def _end(self, job: RunnerJob, ending: Ending) -> None:
        """Tell at once, so that what follows does not wait for files and programs of hooks."""
        self.ending = ending
        job.end(ending)
        self._news.ended(self.name, ending.code)

    def _left(self, _ending: Ending) -> None:
        self.leaving -= 1
        self._on_left()


def _refuse(program: OneProgram, why: str) -> None:
    if not program.started and not program.ending:
        program.refuse(NodeError(why))


def _early(connection: NodeConnection, reason: str) -> str:
    return f"lost {connection.name} before the start: {reason}"
