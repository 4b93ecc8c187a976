"""The gate of `--health_command`: a site's own check of a node before a job and each round."""

from __future__ import annotations

import signal

from ...head.fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from ...head.output.tail import Tail
from ...specs.environment import text_from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...head.fleet.commands import CommandEvent
    from ...head.fleet.fleet import NodeFleet
    from ...head.run.gate import Done
    from ...head.run.run import Run
    from ...head.run.run_node import RunNode
    from ...specs.policies import CheckPolicy


UNANSWERED = 15.0
"""Seconds beyond the limit of the command until its node, which stops it then, is given up."""


class Health:
    """Runs the health command on nodes of a run, with the run's variables and in its folder."""

    def __init__(self, run: Run) -> None:
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}
        self._run = run
        self._checks: dict[RunNode, _Check] = {}

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Run the command on a node; refuse the node if the command fails, or the node is lost."""
        (node,) = nodes
        self._run.state.do(self._start, _Check(node, self._on_over, done))

    def _start(self, check: _Check) -> None:
        self._checks[check.node] = check
        check.start(self._run.spec.checks, self._run.fleet)

    def close(self) -> None:
        """Stop all commands, and call nothing more."""
        checks, self._checks = self._checks, {}
        for check in checks.values():
            check.stop()

    def _on_over(self, check: _Check, why: str) -> None:
        if self._checks.get(check.node) is not check:
            return  # the run is over, another check has begun, or this one was given up
        del self._checks[check.node]
        check.stop()
        self._run.handle(lambda _run: check.done({check.node: why} if why else {}, ()))


class _Check:
    """The run of the command on one node.

    Attributes:
        done: called with the outcome, if the run continues.
    """

    def __init__(self, node: RunNode, over: Callable[[_Check, str], None], done: Done) -> None:
        self.node, self.done, self._over = node, done, over
        self._output = Tail()

    def start(self, checks: CheckPolicy, fleet: NodeFleet) -> None:
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
        late = f"--health_command did not end within {command.seconds:g} s, and cannot be stopped"
        limit = command.seconds + UNANSWERED
        self._timer = fleet.loop.call_later(limit, lambda: self._over(self, late))

    def stop(self) -> None:
        """Stop the command, if it still runs."""
        self._timer.cancel()
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
    """Return the reason to refuse a node, or ""; `line` is the last that was printed."""
    if not ended.failure:
        return ""
    failed = f"--health_command failed ({ended.failure})"
    return f"{failed}: {line}" if line else failed
