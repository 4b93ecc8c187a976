"""`dsrun-job kill JOB -H HOSTS`: end a job's leftovers on hosts, without its runner."""

from __future__ import annotations

from contextlib import nullcontext

from ...cli.parser import Command
from ...common import entry
from ...common.errors import NODE_UNUSABLE
from ...common.loop import Loop
from ...common.text import plain
from ...common.wording import counted
from ...control.job_messages import EndJob
from ...control.messages import SessionEnd
from ...head.fleet.fleet import NodeFleet
from ...head.fleet.hosts import by_cause
from ...head.job.start import prepare
from ...head.output.console import Console
from ...planning.job import job_spec
from ...planning.planner import make_plan
from .runner_end import JobEnd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from ...backends.base import DialBack
    from ...cli.options import Options
    from ...control.job_messages import EndedJob
    from ...head.job.start import PreparedStart
    from ...specs.job import JobSpec
    from .json_types import Remains

LEFT = 1
"""Exit code: something could not be ended."""

NAMED = 8
"""Processes named for a host."""


def stop_on_hosts(options: Options, given: frozenset[str], order: EndJob, *, as_json: bool) -> int:
    """End a job's processes on the hosts that options name; return the exit code.

    Raises:
        DsrunError: the hosts cannot be used as given.
    """
    command = Command(options.changed(no_python=True), ("true",), given)
    planned = make_plan(command)
    spec = job_spec(planned, command.options)
    ended = _stop_on(spec, prepare(planned.plan, planned.backend), order)
    if as_json:
        entry.write(f"{_as_json(order.job_id, ended)}\n")
    else:
        entry.write(plain(_as_text(order.job_id, ended)))
    if ended.unreached:
        return NODE_UNUSABLE
    return LEFT if any(one.left for one in ended.outcomes.values()) else 0


def _stop_on(spec: JobSpec, start: PreparedStart, order: EndJob) -> JobEnd:
    loop = Loop()
    console = Console(loop, colour="never", level="warning")
    nodes = sorted((node for part in start.parts for node in part.nodes), key=lambda n: n.rank)
    fleet = NodeFleet(nodes, loop, console.log, spec.supervision.heartbeat_timeout)
    ended = JobEnd(fleet, order, spec.supervision.start_timeout)
    try:
        with _dial(fleet, start, spec, console) as dial:
            fleet.connect(start.parts, dial)
            ended.wait()
            fleet.close(SessionEnd(0, ""))
    finally:
        fleet.close_at_once()
        console.close()
    return ended


def _dial(
    fleet: NodeFleet, start: PreparedStart, spec: JobSpec, console: Console
) -> AbstractContextManager[DialBack | None]:
    """Listen for node launchers if they connect to this process."""
    if all(part.backend.transport != "dial" for part in start.parts):
        return nullcontext()
    from ..join.runner import announced

    return announced(fleet, start.parts, spec, console)


def _as_text(job_id: str, ended: JobEnd) -> str:
    outcomes = ended.outcomes
    found = {host: one for host, one in outcomes.items() if one.ended or one.left}
    lines = [*by_cause({host: _words(one) for host, one in found.items()})]
    clean = len(outcomes) - len(found)
    if clean:
        lines.append(f"no processes of job {job_id} on {counted(clean, 'host')}")
    lines += by_cause({host: f"not reached: {why}" for host, why in ended.unreached.items()})
    return "".join(f"dsrun-job: {line}\n" for line in lines)


def _words(outcome: EndedJob) -> str:
    parts = [("stopped", outcome.ended), ("could not be stopped", outcome.left)]
    return "; ".join(f"{what}: {_few(texts)}" for what, texts in parts if texts)


def _few(texts: tuple[str, ...]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return f"{', '.join(texts[:NAMED])}{more}"


def _as_json(job_id: str, ended: JobEnd) -> str:
    import json

    from ...common.formats import versioned

    fields: Remains = {
        "job_id": job_id,
        "hosts": [
            {"host": host, "ended": one.ended, "left": one.left}
            for host, one in ended.outcomes.items()
        ],
        "unreached": [{"host": host, "reason": why} for host, why in ended.unreached.items()],
    }
    return json.dumps(versioned("jobs", fields))
