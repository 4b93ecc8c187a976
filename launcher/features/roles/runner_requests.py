"""Answers requests of dsrun-job that are about all roles of a job together.

Each function gets the job, the caller, the request and the descriptors of the request, as in
`features/jobs/runner_requests`.
"""

from __future__ import annotations

from signal import Signals

from ... import __version__
from ...common import system
from ...common.errors import UsageError
from ...common.wording import counted
from ...head.job.ending import ending_of
from ...head.report.report import duration
from ..jobs import runner_status as job_status
from ..jobs.runner_job_status import JobStatus, NodeStatus, as_fields
from ..jobs.runner_report import about, send_past, troubles
from ..jobs.runner_requests import ask_usage, send_output, signal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...head.run.run_view import RunView
    from ..jobs.runner_server import LocalCaller, Message
    from ..jobs.runner_socket import RunHistory
    from .runner_job import RolesJob


def status(job: RolesJob, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
    """Return the state of the job, without ranks."""
    spec, courses = job.spec.job, job.policy.courses.values()
    every = [job_status.status(run, seen, ranks=False) for _, run, seen in _runs(job)]
    newest = max(every, key=lambda one: bool(one.last), default=None)
    nodes: dict[str, NodeStatus] = {}
    for one in every:
        nodes |= {node.host: node for node in one.nodes if nodes.get(node.host) != node}
    whole = JobStatus(
        version=__version__,
        job_id=spec.job_id,
        pid=system.getpid(),
        state=_phase(job),
        since=min((one.since for one in every), default=0.0),
        program=", ".join(f"{one.name} ({one.state.value})" for one in courses),
        workdir=spec.workdir,
        launcher=spec.plan.launcher,
        elastic=any(one.elastic for one in every),
        round=0,
        restarts=sum(one.restarts for one in courses),
        world_size=sum(one.world_size for one in every),
        running=sum(one.running for one in every),
        nodes=tuple(nodes.values()),
        ranks=(),
        last=newest.last if newest else "",
        last_rank=newest.last_rank if newest else None,
    )
    return as_fields(whole)


def report(job: RolesJob, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Return the report so far; first send the past events and output if requested."""
    now = job.loop.clock()
    if request.get("events") is True:
        for name, _, seen in _runs(job):
            send_past(caller, seen, job.began, name)
    head = f"dsrun: job {job.spec.job.job_id} is {_phase(job)}, {duration(now - job.began)}"
    roles = (line for name in job.roles for line in _words(job, name))
    return {
        # The job has no exit code yet.
        "report": {**job.so_far().data, "exit_code": None},
        "text": "\n".join([head, *roles]),
        "seconds": now - job.began,
        "roles": job.spec.role_ends,
        "about": about(job.spec.programs, now - job.began),
    }


def _words(job: RolesJob, name: str) -> Iterator[str]:
    course, run = job.policy.courses[name], job.roles[name].view
    if run is None or not course.ran:
        yield f"  {name}: {course.state.value}"
        return
    told = ending_of(run).report
    size = told.world_size if told is not None else 0
    ranks = f"{len(run.workers.running)} of {counted(size, 'rank')}"
    again = f", {counted(course.restarts, 'restart')}" if course.restarts else ""
    yield f"  {name}: {course.state.value}, {ranks}{again}"
    yield from (f"  {line}" for line in (troubles(told) if told is not None else ()))


def logs(job: RolesJob, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Send the newest output of all roles; with `follow`, later output, too."""
    return send_output(job.histories, caller, request)


def usage(job: RolesJob, caller: LocalCaller, request: Message, _fds: list[int]) -> None:
    """Answer with the usage that each node reports."""
    ask_usage(job.fleet, job.fleet.nodes.values(), caller, request)


def signal(job: RolesJob, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Send a signal to every worker, regardless of the effect."""
    number = signal_of(request)
    ranks = job.signal_ranks(number)
    if not ranks:
        raise UsageError("its workers are not running")
    job.log(f"{Signals(number).name} to all ranks, as dsrun-job requested", "warning")
    return {"ranks": ranks}


def stop(job: RolesJob, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Stop the job as if the runner had received the signal; with `now`, without grace."""
    number = signal_of(request)
    job.log("stopping the job, as dsrun-job requested", "warning")
    job.on_end_signal(number)
    if request.get("now") is True:
        job.handle(job.policy.killed, number)
    return {"grace": sum(run.spec.supervision.grace for _, run, _ in _runs(job))}


def restart(job: RolesJob, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
    """Restart a role whose workers run."""
    role, run = job.role_of(request)
    if not run.runs or job.policy.ending:
        state = job.policy.courses[role.name].state.value
        raise UsageError(f"{role.name} is not running: it is {state}")
    job.log(f"{role.name}: starting it again, as dsrun-job requested", "warning")
    job.handle(job.policy.restart_requested, role.name)
    return {}


def _runs(job: RolesJob) -> list[tuple[str, RunView, RunHistory]]:
    """Return the present or last run of each role that has had one."""
    runs = ((name, role.view) for name, role in job.roles.items())
    return [(name, run, job.histories[name]) for name, run in runs if run is not None]


def _phase(job: RolesJob) -> str:
    return "stopping" if job.policy.ending else "running"
