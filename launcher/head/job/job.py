"""One job in the runner or a hold: put together once, and ended once, whoever has asked for it."""

from __future__ import annotations

import os

from ...backends import BACKENDS
from ...common.errors import NodeError, exhausted
from ...common.output_file import is_page
from .. import doors
from ..report.ending import Ending
from ..run import run_signals
from ..run.run import Run, RunOverrides
from ..run.run_view import ObservedRun
from .banner import banner
from .ending import ending_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ParamSpec

    from ...common.loop import Loop
    from ...specs.job import JobSpec
    from ...specs.program import Program
    from ..fleet.fleet import NodeFleet
    from ..output.console import Console
    from ..run.run import Asks, Happening
    from ..run.run_node import RunNode
    from ..run.run_view import RunView
    from .job_socket import JobSocket, RunAccess, RunHistory

    P = ParamSpec("P")


class RunnerJob:
    """A job: its run, what observes it, the socket for `dsrun-job`, and its end.

    A terminal, a hold and a Python program only give it another console and another exit.

    Attributes:
        spec: what it is.
        console: where its output and messages go.
        loop: runs it.
        hooks: called in a thread once it has ended: each waits until other programs have been told.
        draw: draws its picture (`painter`); None if none was asked for.
        tell: called with its ending for those who wait for that, and for nothing else of the job.
    """

    def __init__(
        self,
        spec: JobSpec,
        console: Console,
        loop: Loop,
        leave: Callable[[Ending], None],
        writes: Callable[[], bool] = lambda: True,
    ) -> None:
        """Prepare it.

        Args:
            spec: what it is.
            console: where its output and messages go; is closed at the end.
            loop: runs it.
            leave: called from the loop with its ending once everybody else has been told.
            writes: returns whether --report_file is written here.
        """
        self.spec = spec
        self._run: Run | None = None
        self.console, self.loop = console, loop
        self._leave, self._writes = leave, writes
        self.hooks: Sequence[Callable[[], None]] = ()
        self.draw: Callable[[Ending], str] | None = None
        self.tell: Callable[[Ending], None] = self._tell
        self._socket: JobSocket | None = None
        self._ending: Ending | None = None
        self._closed = False

    # -- the start --------------------------------------------------------------------------

    def open(self) -> None:
        """Log the opening line, and notes for the user."""
        spec, log = self.spec, self.console.log
        plan, origin = spec.plan, spec.origin
        log(origin.words, "debug")
        log(banner(plan, origin.source, spec.job_id), "debug" if origin.quiet else "info")
        for note in origin.notes:
            log(note)
        if spec.travel.withheld and not BACKENDS[plan.launcher].runs_here:
            names = ", ".join(spec.travel.withheld)
            log(
                f"not sent to the nodes because they look like secrets: {names}"
                " (send one with --export NAME)"
            )

    def assemble(
        self, fleet: NodeFleet, owner: RunOverrides | None = None, input_fd: int = 0
    ) -> None:
        """Prepare its run on a fleet, with its restart policy and all that observes it.

        Args:
            fleet: has its nodes.
            owner: what is done in place of the usual; None for nothing.
            input_fd: the descriptor of the standard input that rank 0 gets, if that was requested.

        Raises:
            UsageError: the folder of --sync cannot be read, or is too large.
        """
        asks = self._asks(fleet)
        run = Run(self.spec, fleet, self.console, doors.restart_policy, asks, owner)
        run.effects.input_fd = input_fd
        self.hooks = doors.observe(run)
        if is_page(self.spec.output.report_file):
            from ..watch.attach import painter

            self.draw = painter(self.loop.clock, self._programs, run.observe)
        self.console.on_broken_pipe = lambda: run.handle(run_signals.on_broken_output)
        self._run = run

    def _asks(self, fleet: NodeFleet) -> Asks | None:
        """Return what makes what brings the folder of --sync to a node before its JOB."""
        sync = self.spec.sync
        if sync is None:
            return None
        from .synced_start import SyncedStart

        return lambda *run: SyncedStart(sync, fleet, self.console.log, *run).prepare

    # -- its run ----------------------------------------------------------------------------

    @property
    def assembled(self) -> bool:
        """Whether it has a run."""
        return self._run is not None

    @property
    def _known(self) -> Run:
        assert self._run is not None
        return self._run

    @property
    def observed(self) -> ObservedRun:
        """Its run, for those who observe it."""
        return ObservedRun(self.spec.role, self._known.observe, self._known.view)

    def view(self) -> RunView:
        """Return how its run is now."""
        return self._known.view()

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Tell its run what has happened, as `Run.handle`."""
        self._known.handle(happened, *args, **kwargs)

    def access(self, seen: RunHistory) -> RunAccess:
        """Return the access of requests to its run, given its history."""
        from .job_socket import RunAccess

        run = self._known
        return RunAccess(run.view, run.handle, self.console.log, run.fleet, seen)

    def begin(self, *, listens: bool = True) -> None:
        """Begin its run.

        Unless it `listens` not, it takes requests of dsrun-job from when node launchers start.
        """
        if listens:
            self.loop.call_later(0.0, self._listen)
        self._known.begin()

    def _listen(self) -> None:
        if self._closed:
            return
        from .job_socket import JobSocket, RunHistory, of_one_program

        seen = RunHistory(self.loop.clock)
        self._known.observe(seen.on_event)
        self._socket = JobSocket(
            self.loop,
            self.spec.job_id,
            lambda: of_one_program(self.access(seen)),
            self.console.log,
        )

    def wait(self) -> None:
        """Wait until its run is over, and give the nodes back to the fleet."""
        self._known.wait()

    def leave(self, wanted: Callable[[RunNode], bool] = lambda _: True) -> list[RunNode]:
        """Give the nodes of its run, which is over, back to the fleet; return those `wanted`.

        These also release ports and log files of a run that was not started.
        """
        run = self._known
        run.leave()
        nodes = [node for node in run.view().nodes if wanted(node)]
        run.release(nodes)
        return nodes

    def close(self) -> None:
        """Take no more requests of dsrun-job."""
        self._closed = True
        if self._socket is not None:
            self._socket.close()

    def _tell(self, ending: Ending) -> None:
        if self._socket is not None:
            self._socket.tell(ending)

    # -- the end ----------------------------------------------------------------------------

    def conclude(self) -> Ending:
        """Return how its run, which is over, has ended.

        That is made once; and anew if a signal, or the end of an engine, known later, explains
        more.
        """
        run = self._known
        record, engine_end = run.view().record, run.fleet.engine_end
        explained = record.explain_by_engine(engine_end, self.loop.clock())
        former = self._ending.report if self._ending is not None else None
        late = former is not None and former.stop_signal != record.stop_signal
        if self._ending is None or explained or late:
            self._ending = ending_of(run.view())
        return self._ending

    def end(self, ending: Ending) -> None:
        """Tell everybody how it has ended: the user, observers, hooks, the report file; then leave.

        What may wait for disks and programs is done in a thread, and nothing more than once.
        """
        self.close()
        if shown := ending.words(self.console.still_shows):
            self.console.print_report(shown)
        elif line := ending.good_end:
            self.console.log(line)
        if self._run is not None:
            self._run.tell_end(ending)
        works = [*self.hooks, *self._error_file(ending)]
        self._aside(works, lambda: self.console.flush(lambda: self._write(ending)))

    def _error_file(self, ending: Ending) -> list[Callable[[], object]]:
        """Return what copies the error of the first failure for whoever has started this."""
        variable = "TORCHELASTIC_ERROR_FILE"
        path = (os.environ if self.spec.environ is None else self.spec.environ).get(variable)
        if not path or not ending.code or self.spec.role:
            return []
        from ..report import error_file, file

        text = error_file.text(ending)
        return [lambda: file.write(path, text, name=variable)] if text else []

    def _write(self, ending: Ending) -> None:
        """Write --report_file, once it is known whether all output could be written."""
        if self.console.has_lost_output:
            ending = ending.unwritten()
        path = self.spec.output.report_file
        if path is None or not self._writes():
            self._close(ending)
            return
        from ..report import file

        problems: list[str] = []

        def wrote() -> None:
            for why in problems:
                self.console.log(f"--report_file {path}: {why}", "error")
            self._close(ending.unwritten() if problems else ending)

        self._aside([lambda: file.write(path, self._text(ending), problems.append)], wrote)

    def _text(self, ending: Ending) -> str:
        from ..watch.attach import report_text

        path = self.spec.output.report_file
        return report_text(path, ending, self.loop.clock, self.draw, self._programs)

    @property
    def _programs(self) -> dict[str, Program]:
        return {"": self.spec.plan.program}

    def _close(self, ending: Ending) -> None:
        self.tell(ending)
        self.console.finish(lambda: self._leave(ending))

    def _aside(self, works: Sequence[Callable[[], object]], then: Callable[[], None]) -> None:
        if not works:
            then()
            return
        from .aside import aside

        aside(self.loop, works, then)

    def crash(self, error: Exception) -> None:
        """Write --report_file for an error after which the loop cannot go on: a fault of dsrun.

        Or this machine gives it no more files, memory or threads.
        """
        why = exhausted(error)
        ending = Ending(self.spec.job_id, NodeError(why) if why else error)
        if self.spec.output.report_file is not None:
            from ..report import file

            file.write(self.spec.output.report_file, self._text(ending))
        self.tell(ending)
        self.console.close()
