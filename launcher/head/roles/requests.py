"""What dsrun-job can ask of a job of roles: of one role as of a job, and of all together."""

from __future__ import annotations

import signal
from functools import partial

from ... import __version__
from ...common import system
from ...common.errors import UsageError
from ...common.wording import counted
from ...control.job_status import JobStatus, NodeStatus, as_fields
from ..job.ending import ending_of
from ..job.job_requests import follow, ranks_of, signal_of, tell_usage
from ..job.job_status import status
from ..job.report_request import about, send_past, troubles
from ..report.report import duration
from .control import pass_on
from .roles_log import RolesLogReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..job.job_socket import RunHistory
    from ..local.server import LocalCaller, Message, Verb
    from ..run.run_view import RunView
    from .role_run import RoleRun
    from .roles_job import RolesJob

OF_ROLES = ("stacks", "scale")
"""What can be asked of one role only."""


class RolesRequests:
    """Answers requests about a job of roles.

    Attributes:
        verbs: by the names that requests give.
    """

    def __init__(self, job: RolesJob) -> None:
        self._job = job
        of_all: dict[str, Verb] = {
            "status": self._status,
            "usage": self._usage,
            "signal": self._signal,
            "stop": self._stop,
            "report": self._report,
            "logs": self._logs,
            **dict.fromkeys(OF_ROLES, self._needs_role),
        }
        self.verbs: dict[str, Verb] = {
            name: partial(self._choose, name, verb) for name, verb in of_all.items()
        }
        self.verbs["restart"] = self._restart

    def _choose(
        self, name: str, of_all: Verb, caller: LocalCaller, request: Message, fds: list[int]
    ) -> Message | None:
        """Answer for the role that a request names, or for all."""
        if request.get("role") is None:
            return of_all(caller, request, fds)
        role, _ = self._role(named := request["role"])
        verbs = role.verbs(self._job.histories[named])
        return verbs[name](caller, request, fds)

    def _role(self, role: object) -> tuple[RoleRun, RunView]:
        known = self._job.roles
        if not isinstance(role, str) or role not in known:
            raise UsageError(f"no role {str(role)[:40]}; its roles are {', '.join(known)}")
        run = known[role].view
        if run is None:
            raise UsageError(f"{role} has not started")
        return known[role], run

    def _needs_role(self, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
        raise UsageError(f"--role NAME: expected one of {', '.join(self._job.roles)}")

    # -- all roles --------------------------------------------------------------------------

    @property
    def _runs(self) -> list[tuple[str, RunView, RunHistory]]:
        """The present runs of the roles that have one, or the last ones."""
        runs = ((name, role.view) for name, role in self._job.roles.items())
        return [(name, run, self._job.histories[name]) for name, run in runs if run is not None]

    def _status(self, _caller: LocalCaller, _request: Message, _fds: list[int]) -> Message:
        job, spec = self._job, self._job.spec.job
        every = [status(run, seen, ranks=False) for _, run, seen in self._runs]
        newest = max(every, key=lambda one: bool(one.last), default=None)
        courses = job.policy.courses.values()
        nodes: dict[str, NodeStatus] = {}
        for one in every:
            nodes |= {node.host: node for node in one.nodes if nodes.get(node.host) != node}
        whole = JobStatus(
            version=__version__,
            job_id=spec.job_id,
            pid=system.getpid(),
            state=self._phase,
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

    def _report(self, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        """Answer how the job does; send what has happened, too, if that is asked for."""
        job, now = self._job, self._job.loop.clock()
        if request.get("events") is True:
            self._send_past(caller)
        head = f"dsrun: job {job.spec.job.job_id} is {self._phase}, {duration(now - job.began)}"
        roles = (line for name in job.roles for line in self._words(name))
        return {
            # It has no exit code yet.
            "report": {**job.so_far().data, "exit_code": None},
            "text": "\n".join([head, *roles]),
            "seconds": now - job.began,
            "roles": {role.name: role.ends for role in job.spec.roles},
            "about": about(job.programs, now - job.began),
        }

    def _words(self, name: str) -> Iterator[str]:
        """Yield lines on how a role does."""
        course, run = self._job.policy.courses[name], self._job.roles[name].view
        if run is None or not course.ran:
            yield f"  {name}: {course.state.value}"
            return
        told = ending_of(run).report
        size = told.world_size if told is not None else 0
        ranks = f"{len(run.workers.running)} of {counted(size, 'rank')}"
        again = f", {counted(course.restarts, 'restart')}" if course.restarts else ""
        yield f"  {name}: {course.state.value}, {ranks}{again}"
        yield from (f"  {line}" for line in (troubles(told) if told is not None else ()))

    def _send_past(self, caller: LocalCaller) -> None:
        for name, _, seen in self._runs:
            send_past(caller, seen, self._job.began, name)

    def _logs(self, caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        """Send the newest output of all roles; with `follow` also what comes later."""
        ranks = ranks_of(request)
        reader = RolesLogReader(caller, None if ranks is None else set(ranks))
        for name, seen in self._job.histories.items():
            for rank, stream, data in seen.tail.blocks():
                reader.feed(name, rank, seen.tail.hosts[rank], stream, data)
            if request.get("follow") is True:
                follow(caller, seen, partial(reader.feed, name))
        return {}

    def _usage(self, caller: LocalCaller, request: Message, _fds: list[int]) -> None:
        """Answer with what each node reports."""
        fleet = self._job.fleet
        tell_usage(fleet, fleet.nodes.values(), caller, request)

    def _signal(self, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        number = signal_of(request)
        ranks = pass_on(self._job, number)
        if not ranks:
            raise UsageError("its workers are not running")
        name = signal.Signals(number).name
        self._job.log(f"{name} to all ranks, as dsrun-job requested", "warning")
        return {"ranks": ranks}

    def _stop(self, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        """Stop the job as if its runner had received this signal; `now`: without grace."""
        number = signal_of(request)
        self._job.log("stopping the job, as dsrun-job requested", "warning")
        self._job.end(number)
        if request.get("now") is True:
            self._job.handle(self._job.policy.killed, number)
        return {"grace": sum(run.spec.supervision.grace for _, run, _ in self._runs)}

    def _restart(self, _caller: LocalCaller, request: Message, _fds: list[int]) -> Message:
        """Start a role again, whose workers run."""
        if request.get("role") is None:
            self._needs_role(_caller, request, _fds)
        _, run = self._role(name := request["role"])
        if not run.runs or self._job.policy.ending:
            raise UsageError(f"{name} is not running: it is {self._state(name)}")
        self._job.log(f"{name}: starting it again, as dsrun-job requested", "warning")
        self._job.handle(self._job.policy.restart_requested, name)
        return {}

    @property
    def _phase(self) -> str:
        return "stopping" if self._job.policy.ending else "running"

    def _state(self, name: str) -> str:
        return self._job.policy.courses[name].state.value
