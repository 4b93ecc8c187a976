"""`--on_event` and `--metrics_file` of a job, whether it has one program or several roles."""

from __future__ import annotations

from functools import partial

from ...head.run.events import JobEnded
from .runner_exposition import Metric, joint, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop
    from ...head.fleet.node_queries import NodeQueries
    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun
    from ...specs.job import JobSpec
    from .runner_commands import EventCommands
    from .runner_metrics import MetricsWriter, RunMetrics


class JobHooks:
    """Runs the command for the events of a job, and writes its metrics to a file.

    In a job of several roles, events and samples of a role have its name.

    Attributes:
        writer: writes the metrics; None without --metrics_file.
    """

    def __init__(
        self,
        spec: JobSpec,
        loop: Loop,
        log: Callable[[str, str], None],
        queries: NodeQueries,
        began: Callable[[], float],
        roles: Callable[[], Mapping[str, tuple[str, int]]] = dict,
    ) -> None:
        """Begin to report on a job.

        Args:
            spec: the whole job.
            loop: the loop of the job.
            log: prints a message, given its text and level.
            queries: ask nodes for their usage.
            began: returns the start of the job, on the loop's clock.
            roles: returns the state and the number of restarts of each role, by name.
        """
        self._job_id, self._loop, self._roles = spec.job_id, loop, roles
        self._runs: dict[str, RunMetrics] = {}
        self._commands: EventCommands | None = None
        self.writer: MetricsWriter | None = None
        if spec.hooks.metrics_file is not None:
            from .runner_device_use import DeviceUse
            from .runner_metrics import MetricsWriter

            self._devices = DeviceUse(queries)
            self.writer = MetricsWriter(loop, spec.hooks.metrics_file, self._text, log)
        if spec.hooks.on_event:
            from .runner_commands import EventCommands

            self._commands = EventCommands(spec, loop, log, began)

    def observe(self, run: ObservedRun) -> None:
        """Report on a run that has not begun."""
        if self.writer is not None:
            from .runner_metrics import RunMetrics

            self._runs[run.role] = RunMetrics(self._loop.clock, run.view)
        run.observe(partial(self.on_event, role=run.role))

    def on_event(self, event: RunEvent, role: str = "") -> None:
        """Report an event of a role; one without a role is of the only program or the whole job."""
        over = type(event) is JobEnded
        if over and role:
            return  # the end of one run of the role
        if self._commands is not None:
            self._commands.on_event(event, role)
        soon = role in self._runs and self._runs[role].on_event(event)
        if self.writer is not None and over:
            self.writer.write_last()
        elif self.writer is not None and soon:
            self.writer.write_soon()

    def close(self) -> None:
        """Wait a while until the last metrics are written and the last commands have ended."""
        for hook in (self.writer, self._commands):
            if hook is not None:
                hook.close()

    def _text(self) -> str:
        self._devices.ask(node for run in self._runs.values() for node in run.view().nodes)
        of_runs = joint("role", {role: run.now() for role, run in self._runs.items()})
        every = [*self._of_roles(), *of_runs, *self._devices.now()]
        return text(every, {"job_id": self._job_id})

    def _of_roles(self) -> list[Metric]:
        roles = self._roles().items()
        if not roles:
            return []
        states = tuple(({"role": name, "state": state}, 1.0) for name, (state, _) in roles)
        restarts = tuple(({"role": name}, float(count)) for name, (_, count) in roles)
        return [
            Metric("role_state", "The state of a role.", states),
            Metric("role_restarts_total", "Restarts of a role after failures.", restarts),
        ]
