"""The verb `report` of dsrun-job: the state of a running job, and its past events."""

from __future__ import annotations

from ... import __version__
from ...common import system
from ...common.wording import counted
from ...head.job.ending import ending_of
from ...head.report.ending import Ending
from ...head.report.report import duration
from ...head.run.events import as_json
from ...specs.program import command_lines
from .runner_requests import LogReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...head.report.report import JobReport
    from ...head.run.run_view import RunView
    from ...specs.program import Program
    from .runner_server import LocalCaller, Message
    from .runner_socket import RunAccess, RunHistory


def report(access: RunAccess, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Return the state of a run; send its past events first if the request asks for them."""
    run, seen, now = access.view(), access.seen, access.seen.clock()
    if request.get("events") is True:
        send_past(caller, seen, began(run, seen))
    ending = ending_of(run)
    if ending.report is not None:
        ended = now if not run.ending else ending.report.ended
        ending = Ending(ending.job_id, ending.report._replace(ended=ended))
    text = ending.text if ending.report is None else words(run, ending.report)
    seconds = now - began(run, seen)
    return {
        # A running job has no exit code yet.
        "report": {**ending.data, "exit_code": None},
        "text": text,
        "seconds": seconds,
        "about": about({"": run.plan.program}, seconds),
    }


def about(programs: Mapping[str, Program], seconds: float) -> Message:
    """Return the description of a job as a `PictureHead`; `seconds` is its duration so far."""
    return {
        "command": command_lines(programs),
        "version": __version__,
        "since": system.time() - seconds,
    }


def began(run: RunView, seen: RunHistory) -> float:
    """Return the time of the first event."""
    return min([run.record.began, *(at for at, _ in list(seen.past)[:1])])


def words(run: RunView, report: JobReport) -> str:
    """Return the state of a job in words."""
    hosts = counted(len(report.hosts), "host")
    ranks = f"{len(run.workers.running)} of {counted(report.world_size, 'rank')}"
    ago = duration(report.ended - report.began)
    head = f"dsrun: job {report.job_id} is {run.phase.name.lower()}: {ranks} on {hosts}, {ago}"
    return "\n".join([head, *troubles(report)])


def troubles(report: JobReport) -> list[str]:
    """Return lines about troubles so far."""
    lines = [
        f"  rank {one.rank} ({one.host}) failed with code {one.exit_code}"
        for one in report.failures
    ]
    lines += [f"  lost {one.host}: {one.reason}" for one in report.losses]
    return lines + [line for one in report.sections for line in one.text(report, "")]


def send_past(caller: LocalCaller, seen: RunHistory, first: float, role: str = "") -> None:
    """Send the events since `first`, each with its time, and the newest output."""
    caller.event({"event": "role", "role": role})
    for at, event in seen.past:
        fields = {"event": "past", "role": role, "at": at - first, "of": as_json(event)}
        caller.event(fields)
    LogReader(caller).send(seen.tail)
