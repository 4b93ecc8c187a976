"""What other programs are told of a job of roles: `--on_event` and `--metrics_file` of the job."""

from __future__ import annotations

from functools import partial

from ..hooks.commands import EventCommands
from ..hooks.device_use import DeviceUse
from ..hooks.exposition import Metric, joint, text
from ..hooks.metrics import MetricsWriter, RunMetrics
from ..run.events import JobEnded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop
    from ...specs.job import JobSpec
    from ..fleet.node_queries import NodeQueries
    from ..report.ending import Ending
    from ..run.events import RunEvent
    from ..run.run_view import ObservedRun, RunView
    from .policy import RoleCourse


class RolesHooks:
    """Runs the command for the events of all roles, and writes the metrics of all to one file.

    Events and samples of a role have its name; the last event is that of the job.
    """

    def __init__(
        self,
        spec: JobSpec,
        loop: Loop,
        courses: Mapping[str, RoleCourse],
        log: Callable[[str, str], None],
        queries: NodeQueries,
    ) -> None:
        """Begin.

        Args:
            spec: the whole job.
            loop: of the job.
            courses: what is known of each role, by name.
            log: prints a message, given its text and level.
            queries: ask nodes how they are used.
        """
        self._devices = DeviceUse(queries)
        self._views: dict[str, Callable[[], RunView]] = {}
        self._spec, self._loop, self._courses, self._log = spec, loop, courses, log
        self._metrics: dict[str, RunMetrics] = {}
        self._commands: EventCommands | None = None
        self._writer: MetricsWriter | None = None
        hooks = spec.hooks
        if hooks.on_event:
            began = loop.clock()
            self._commands = EventCommands(spec, loop, log, lambda: began)
        if hooks.metrics_file is not None:
            self._writer = MetricsWriter(loop, hooks.metrics_file, self._text, log)

    def observe(self, run: ObservedRun) -> None:
        """Tell of a run of a role that has not begun."""
        if self._writer is not None:
            self._metrics[run.role] = RunMetrics(self._loop.clock, run.view)
            self._views[run.role] = run.view
        run.observe(partial(self._on_event, run.role))

    def _on_event(self, role: str, event: RunEvent) -> None:
        if type(event) is JobEnded:
            return  # only of this run
        if self._commands is not None:
            self._commands.on_event(event, role)
        soon = role in self._metrics and self._metrics[role].on_event(event)
        if self._writer is not None and soon:
            self._writer.write_soon()

    def end(self, ending: Ending) -> list[Callable[[], None]]:
        """Tell of the end of the job; return what waits in a thread until all have been told."""
        if self._commands is not None:
            self._commands.on_event(JobEnded(ending))
        if self._writer is not None:
            self._writer.write_last()
        return [hook.close for hook in (self._writer, self._commands) if hook is not None]

    # -- metrics ----------------------------------------------------------------------------

    def _text(self) -> str:
        of_roles = joint("role", {name: one.now() for name, one in self._metrics.items()})
        self._devices.ask(node for view in self._views.values() for node in view().nodes)
        every = [*self._states(), *of_roles, *self._devices.now()]
        return text(every, {"job_id": self._spec.job_id})

    def _states(self) -> list[Metric]:
        courses = self._courses.items()
        states = tuple(({"role": name, "state": one.state.value}, 1.0) for name, one in courses)
        restarts = tuple(({"role": name}, float(one.restarts)) for name, one in courses)
        return [
            Metric("role_state", "The state of a role.", states),
            Metric("role_restarts_total", "Restarts of a role after failures.", restarts),
        ]
