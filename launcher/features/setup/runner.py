"""The gate of `--setup`: nodes get their JOB once the command has succeeded there."""

from __future__ import annotations

import json
import signal

from ...common.text import plain
from ...head.fleet.commands import CommandEnded, CommandLost, CommandOutput, CommandSpec
from ...head.fleet.hosts import some_of
from ...head.run.node_jobs import tasks
from ...specs.environment import text_from_wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...control.messages import NodeJob
    from ...head.fleet.commands import CommandEvent
    from ...head.run.gate import Done
    from ...head.run.run import Run
    from ...head.run.run_node import RunNode

SILENT = 2.0
"""Seconds after which a line says that the command runs."""

KEPT = 4096
"""Bytes of its output that are kept."""

SHOWN = 3
"""Last lines of its output that are shown if it fails."""


class Setup:
    """Runs the command on each node of a run, in the folder and with the variables of the job."""

    def __init__(self, run: Run) -> None:
        self.handlers: Mapping[int, Callable[[RunNode, bytes], None]] = {}
        self._run = run
        self._task = tasks(run.spec)
        self._running: dict[RunNode, _NodeSetup] = {}
        self._timer = run.fleet.loop.call_later(SILENT, self._tell)

    def check(self, nodes: Sequence[RunNode], done: Done) -> None:
        """Run the command on a node; refuse the node if the command fails."""
        (node,) = nodes
        task = self._task(node.node)
        task = node.change_job(task) if node.change_job else task

        def over(why: str) -> None:
            if self._running.pop(node, None) is not None:
                done({node: why} if why else {}, ())

        self._running[node] = _NodeSetup(self._run, node, task, over)

    def close(self) -> None:
        """Stop all commands, and call nothing more."""
        self._timer.cancel()
        running, self._running = self._running, {}
        for one in running.values():
            one.stop()

    def _tell(self) -> None:
        if self._running:
            names = some_of([node.name for node in self._running])
            command = plain(self._run.spec.checks.setup)
            self._run.log(f"--setup {command!r} is running on {names}", "info")


class _NodeSetup:
    """The command on one node."""

    def __init__(self, run: Run, node: RunNode, task: NodeJob, over: Callable[[str], None]) -> None:
        """Start it; `over` is called with the reason for its failure, "" if it has succeeded."""
        self._over, self._output = over, b""
        checks = run.spec.checks
        asked = {
            "command": checks.setup,
            "job": run.spec.job_id,
            "files": checks.setup_if,
            "once": run.spec.held or bool(checks.setup_if),
        }
        command = CommandSpec(
            argv=(json.dumps(asked),),
            env={text_from_wire(name): text_from_wire(one) for name, one in task.env.items()},
            workdir=text_from_wire(task.workdir),
            program="setup",
        )
        connection = run.fleet.nodes[node.connection.number]
        self._command = run.fleet.commands.run([connection], command, self._on_event)

    def stop(self) -> None:
        """Stop the command."""
        self._command.stop(signal.SIGTERM)

    def _on_event(self, event: CommandEvent) -> None:
        match event:
            case CommandOutput(_, _, data):
                self._output = (self._output + data)[-KEPT:]
                self._command.took(event)
            case CommandEnded():
                self._over(_why(event, self._output))
            case CommandLost(_, reason):
                self._over(reason)


def _why(ended: CommandEnded, output: bytes) -> str:
    """Return why the command has failed, with the last lines of its output; "" if it has not."""
    if not ended.failure:
        return ""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    last = " | ".join([plain(line)[:200] for line in lines if line][-SHOWN:])
    return f"--setup failed ({ended.failure}){f': {last}' if last else ''}"
