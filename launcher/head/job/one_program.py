"""The one program of a job: its run on a fleet, with restart policy and observers."""

from __future__ import annotations

from .. import doors
from ..run import run_signals, run_start
from ..run.run import Run
from ..run.run_state import RunState
from ..run.run_view import ObservedRun
from .ending import ending_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import ParamSpec

    from ...common.errors import DsrunError
    from ...features.jobs.runner_socket import FindRun, RunAccess, RunHistory
    from ...specs.job import JobSpec
    from ..fleet.fleet import NodeFleet
    from ..output.screen import Screen
    from ..report.ending import Ending
    from ..run.run import Happening, RunOverrides
    from ..run.run_node import RunNode
    from ..run.run_view import RunView

    P = ParamSpec("P")


class OneProgram:
    """One run of one program: of a whole job, or of a role between two restarts (`Programs`).

    Attributes:
        end_signals: the names of the signals that stop the run.
        roles: the name of the role; "" without roles.
    """

    def __init__(
        self,
        spec: JobSpec,
        fleet: NodeFleet,
        console: Screen,
        owner: RunOverrides | None = None,
        input_fd: int = 0,
    ) -> None:
        """Prepare a run.

        Args:
            spec: the job.
            fleet: the fleet of the run's nodes.
            console: the destination of output and messages.
            owner: the overrides of the run's owner, or None.
            input_fd: the descriptor of standard input for rank 0, if requested.

        Raises:
            UsageError: the folder of --sync cannot be read, or is too large.
        """
        self.spec, self.end_signals = spec, spec.supervision.end_signals
        self.roles = (spec.role,)
        self._log = console.log
        self._run = Run(spec, fleet, console, doors.restart_policy, doors.gates, owner)
        self._run.effects.input_fd = input_fd
        self._hooks = doors.observe(self._run)
        self._ending: Ending | None = None

    # -- its run ----------------------------------------------------------------------------

    @property
    def observed(self) -> ObservedRun:
        """The run, for observers."""
        return ObservedRun(self.spec.role, self._run.observe, self._run.view)

    def observe_runs(self, observe: Callable[[ObservedRun], None]) -> None:
        """Call a function with the run."""
        observe(self.observed)

    def view(self) -> RunView:
        """Return the current state of the run."""
        return self._run.view()

    def handle(self, happened: Happening[P], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Report an event to the run, as `Run.handle`."""
        self._run.handle(happened, *args, **kwargs)

    @property
    def started(self) -> bool:
        """True if workers were started."""
        return self.view().started

    @property
    def ending(self) -> bool:
        """True if the run has ended on all nodes."""
        return self.view().ending

    @property
    def abandoned(self) -> bool:
        """True if a third interrupt has ended the run without waiting for its nodes."""
        return self.view().abandoned

    @property
    def refusal(self) -> DsrunError | None:
        """The reason why the run could not start; None if it could."""
        return self.view().error

    def start(self, listen: Callable[[], None] | None = None) -> None:
        """Start the run; `listen` accepts requests about it once node launchers start."""
        if listen is not None:
            self._run.loop.call_later(0.0, listen)
        self._run.start()

    def wait(self) -> None:
        """Wait until the run has ended, and return its nodes to the fleet."""
        self._run.wait()

    def release_nodes(
        self, wanted: Callable[[RunNode], bool] = lambda _: True
    ) -> Sequence[RunNode]:
        """Give the nodes of an ended run back to the fleet.

        Return those `wanted` that had its workers: none if workers were not started. The nodes then
        only release ports and log files.
        """
        self._run.release_nodes()
        run = self.view()
        nodes = [node for node in run.nodes if wanted(node)]
        self._run.release(nodes)
        return nodes if run.started else ()

    # -- signals and errors -----------------------------------------------------------------

    def on_end_signal(self, number: int, why: str = "") -> None:
        """Handle a signal that stops the run; `why` replaces the signal's name in messages."""
        self.handle(run_signals.on_end_signal, number, why)

    def pass_on(self, number: int) -> None:
        """Handle a signal that does not stop the run."""
        self.handle(run_signals.on_other_signal, number)

    def signal_ranks(self, number: int) -> int:
        """Send a signal to all ranks if they were started; return the number of running ranks."""
        if self.started:
            self.handle(run_signals.signal_ranks, number)
        return len(self.view().workers.running)

    def stop(self, number: int, grace: float | None) -> None:
        """Stop the run with a signal; `grace` replaces the job's own grace period unless None."""
        run = self.view()
        if grace is None or not run.started:
            self.on_end_signal(number)
        elif not run.ending:
            run.record.stop_signal = run.record.stop_signal or number
            self.handle(RunState.stop, number, grace)

    def fail(self, error: DsrunError) -> None:
        """End the run with an error."""
        self.handle(RunState.fail, error)

    def call_off(self, reason: str) -> None:
        """Cancel the start for a reason; if workers already run, only warn."""
        self.handle(run_start.call_off, reason)

    def on_broken_output(self) -> None:
        """Stop the run, because nobody reads its output any longer."""
        self.handle(run_signals.on_broken_output)

    # -- what others get to know ------------------------------------------------------------

    def requests(self) -> FindRun:
        """Note what requests ask for from now on; return the search for the run of one."""
        from ...features.jobs.runner_socket import RunHistory, only_run

        seen = RunHistory(self._run.loop.clock)
        self._run.observe(seen.on_event)
        return only_run(self.access(seen))

    def access(self, seen: RunHistory) -> RunAccess:
        """Return the access of requests to the run, given the history."""
        from ...features.jobs.runner_socket import RunAccess

        return RunAccess(self.view, self.handle, self._log, self._run.fleet, seen)

    def tell_end(self, ending: Ending) -> Sequence[Callable[[], None]]:
        """Report the ending to observers; return slow functions to call in a thread."""
        self._run.tell_end(ending)
        return self._hooks

    def make_ending(self) -> Ending:
        """Return the ending of the run, which is over.

        The ending is made once, and made again if a later signal, or the end of an engine, explains
        more.
        """
        run = self._run
        record, engine_end = run.view().record, run.fleet.engine_end
        explained = record.explain_by_engine(engine_end, run.loop.clock())
        former = self._ending.report if self._ending is not None else None
        late = former is not None and former.stop_signal != record.stop_signal
        if self._ending is None or explained or late:
            self._ending = ending_of(run.view())
        return self._ending
