"""`dsrun-check --promises`: prove dsrun's promises on the user's own nodes."""

from __future__ import annotations

import json
import shlex
from contextlib import ExitStack

from ...common import entry
from ...common.errors import NodeError, UsageError, conflict
from ...common.formats import versioned
from ...common.loop import Loop
from ...head.fleet.hosts import by_cause
from ...head.output.console import Console
from ..full_check.command_nodes import EndedBySignal, LoopWait, connect, prepare
from ..full_check.plan import plan_check
from . import runner_table
from .runner import Site, new_folder, own_options, results
from .runner_rows import chosen
from .runner_verdict import RowResult, any_broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.tool_parser import ToolCommand
    from ...specs.job import JobSpec
    from .json_types import PromisesJson, RowJson
    from .runner_rows import PromiseRow

BROKEN = 1
"""Exit code: a promise was not kept."""

PER_NODE = 2
"""Stand-ins on a node, unless it has fewer slots."""

REPORT = "REPORT.json"
"""Placeholder for the file of a report."""


def check(command: ToolCommand) -> None:
    """Check that the options fit together.

    Raises:
        UsageError: options do not fit, or there is no such row.
    """
    own = command.own
    for name in ("compare", "report", "full", "svg"):
        if own[name]:
            raise conflict("--promises", f"--{name}")
    if command.options.on is not None:
        raise UsageError(
            f"--promises: not with --on {command.options.on}: rows kill node launchers, which"
            " other jobs on the hold need; name the hosts"
        )
    chosen(command.rest)


def execute(command: ToolCommand) -> int:
    """Try the rows, show them, and return the exit code.

    Raises:
        DsrunError: the nodes cannot be used as requested.
    """
    rows = chosen(command.rest)
    # The stand-ins have a folder of their own, and are looked at from outside of their containers.
    outside = {"workdir": None, "container": "", "mount": (), "container_args": ""}
    nodes = command._replace(options=command.options.changed(**outside), rest=())
    if command.own["dry_run"]:
        shown = Shown(command, plan_check(nodes.options, ()))
        for row in rows:
            why = shown.site.skip(row)
            shown.add(RowResult(row, "skipped" if why else "planned", (why,) if why else ()))
        return shown.finish(None)
    with ExitStack() as stack:
        prepared = prepare(nodes, stack)  # before there is a thread: it forks
        loop = Loop()
        level = "error" if command.options.quiet else command.options.log_level
        console = Console(loop, colour=command.options.color, level=level)
        stack.callback(console.close)
        waiting = LoopWait(loop)
        shown = Shown(command, prepared.job)
        try:
            reached = connect(prepared, waiting, console, stack)
            if reached.missing:
                raise NodeError("\n".join(by_cause(reached.missing)))
            began = loop.clock()
            programs, causes = reached.programs, reached.causes
            for one in results(rows, shown.site, programs, waiting.until, causes):
                shown.add(one)
            return shown.finish(loop.clock() - began)
        except EndedBySignal as ended:
            return 128 + ended.number
        finally:
            console.status("")


class Shown:
    """The output: a table row by row, or one JSON object at the end.

    Attributes:
        site: the place of the jobs.
    """

    def __init__(self, command: ToolCommand, job: JobSpec) -> None:
        """Print nothing yet."""
        self._json: bool = command.own["json"]
        self._job = job
        self._results: list[RowResult] = []
        per_node = None if "num_gpus" in command.given else _per_node(job)
        options = own_options(command.shared, per_node)
        self.site = Site(options, job.plan.launcher, new_folder())

    def add(self, result: RowResult) -> None:
        """Print a row; the heading comes with the first."""
        self._results.append(result)
        if self._json:
            return
        lines = [runner_table.heading()] if len(self._results) == 1 else []
        lines += runner_table.lines(result)
        if result.state == "planned":
            lines.append(f"    {shlex.join(self._words(result.row))}")
        entry.write("".join(f"{line}\n" for line in lines))

    def finish(self, seconds: float | None) -> int:
        """Print the end, with the seconds of all rows; return the exit code."""
        code = BROKEN if any_broken(self._results) else 0
        if self._json:
            entry.write(self._as_json(code, seconds or 0.0))
        elif seconds is not None:
            entry.write(f"{runner_table.summary(self._results, seconds)}\n")
        return code

    def _words(self, row: PromiseRow) -> list[str]:
        return ["dsrun", *self.site.words(row, REPORT)]

    def _as_json(self, code: int, seconds: float) -> str:
        told: PromisesJson = {
            "exit_code": code,
            "hosts": [node.host.name for node in self._job.plan.nodes],
            "launcher": self._job.plan.launcher,
            "seconds": seconds,
            "rows": [self._row(one) for one in self._results],
        }
        return json.dumps(versioned("promises", told)) + "\n"

    def _row(self, result: RowResult) -> RowJson:
        row = result.row
        promise = row.promise
        return {
            "row": row.name,
            "fault": row.fault,
            "promised": {
                "codes": promise.codes,
                "line": promise.line,
                "cause": promise.cause,
                "after": promise.after,
                "within": promise.within,
            },
            "state": result.state,
            "why": result.why,
            "code": result.code,
            "line": result.line,
            "ended": result.ended,
            "clean": result.clean,
            "command": self._words(row),
        }


def _per_node(job: JobSpec) -> int:
    """Return the number of stand-ins on each node, which has at least as many slots."""
    known = [len(node.host.slots) for node in job.plan.nodes if node.host.slots is not None]
    return min([PER_NODE, *known])
