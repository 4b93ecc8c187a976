"""`--health_command`: the site's own check of a node, before it takes part in a job or a round."""

from __future__ import annotations

import signal

from ...specs.environment import text_from_wire
from ..fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from ..output.tail import Tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...specs.job import JobSpec
    from ...specs.policies import CheckPolicy
    from ..fleet.commands import CommandEvent
    from ..fleet.fleet import NodeFleet
    from ..run.run_node import RunNode


class Health:
    """Runs the health command on nodes of a run, with the run's variables and in its folder."""

    def __init__(self, spec: JobSpec, fleet: NodeFleet) -> None:
        """Check no node of this job on a fleet yet."""
        self._spec, self._fleet = spec, fleet
        self._checks: dict[RunNode, _Check] = {}

    def check(self, node: RunNode, tell: Callable[[str], None]) -> None:
        """Run the command on a node.

        Args:
            node: a connected node on which it does not run.
            tell: called with "" if it has succeeded, else with why not: it has failed, or the node
                is lost. Not called if the run ends before.
        """
        self._checks[node] = check = _Check(node, self._on_over, tell)
        check.begin(self._spec.checks, self._fleet)

    def close(self) -> None:
        """Stop all commands, and tell nothing more."""
        checks, self._checks = self._checks, {}
        for check in checks.values():
            check.stop()

    def _on_over(self, check: _Check, why: str) -> None:
        if self._checks.pop(check.node, None) is None:
            return  # the run is over
        check.tell(why)


class _Check:
    """The run of the command on one node.

    Attributes:
        node: the node.
        tell: called with the outcome.
    """

    def __init__(
        self, node: RunNode, over: Callable[[_Check, str], None], tell: Callable[[str], None]
    ) -> None:
        self.node = node
        self.tell = tell
        self._over = over
        self._output = Tail()

    def begin(self, checks: CheckPolicy, fleet: NodeFleet) -> None:
        """Start the command."""
        task = self.node.task
        assert task is not None
        env = {**(task.base or {}), **task.env, "DSRUN_JOB_ID": task.job_id}
        command = CommandSpec(
            argv=("sh", "-c", checks.health_command),
            env={text_from_wire(name): text_from_wire(value) for name, value in env.items()},
            workdir=text_from_wire(task.workdir),
            seconds=checks.health_timeout,
        )
        self._running = fleet.commands.run([self.node.connection], command, self._on_event)

    def stop(self) -> None:
        """Stop the command."""
        self._running.stop(signal.SIGTERM)

    def _on_event(self, event: CommandEvent) -> None:
        match event:
            case CommandOutput(_, stream, data):
                self._output.add(0, self.node.name, stream, data)
                self._running.took(event)
            case CommandEnded():
                self._over(self, _why(event, self._output.last_line(0)))
            case CommandLost(_, reason):
                self._over(self, reason)


def _why(ended: CommandEnded, line: str) -> str:
    """Return why a node may not take part, "" if it may; `line` is the last that was printed."""
    if ended.code == 0 and not ended.hint:
        return ""
    signalled = f"killed by signal {-ended.code}"
    how = ended.hint or (f"exit code {ended.code}" if ended.code > 0 else signalled)
    failed = f"--health_command failed ({how})"
    return f"{failed}: {line}" if line else failed
