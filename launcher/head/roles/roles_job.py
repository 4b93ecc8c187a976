"""Carries out what the policy of a job's roles decides, and tells it what happens."""

from __future__ import annotations

import signal
from functools import partial

from ...common.event_queue import EventQueue
from ...common.loop import DueTimer
from ...common.output_file import is_page
from ...control import frames, messages
from ...control.role_messages import Lease
from ..fleet.events import NO_MESSAGE, NodeConnected, NodeEnded
from ..job.ending import ending_of
from ..job.job_socket import JobSocket, RunHistory
from ..run.decisions import CallOff, OtherSignal, Refuse, ReplaceHost
from ..run.events import Lost, Round
from ..run.phase import RunPhase
from ..run.run import RunOverrides
from ..run.run_signals import StopRequests, StopStep
from ..watch.attach import roles_painter
from . import role_events as events
from .directory import Directory
from .ending import RolesEnding, Section
from .policy import RolesPolicy
from .port_checks import PortChecks
from .readiness import RoleReadiness
from .role_actions import CheckReady, EndRoles, PrepareRole, RolesLog, StartRole, StopRole
from .role_console import RoleConsole
from .role_run import RoleRun
from .spares import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ...common.errors import DsrunError
    from ...specs.job import JobSpec
    from ...specs.program import Program
    from ...specs.roles import RoleSpec, RolesSpec
    from ..fleet.events import FleetEvent
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..local.server import Verb
    from ..output.console import Console
    from ..report.ending import Ending
    from ..run.events import RunEvent
    from ..run.run_node import RunNode
    from ..run.run_view import ObservedRun
    from .hooks import RolesHooks
    from .role_actions import RoleAction
    from .role_events import RoleEvent

PREFIX = "{role}/{host}:{rank}| "
"""The label of the lines of a role, unless its job has another one than usual."""


class RolesJob:
    """The roles of one job on a fleet.

    Attributes:
        spec: the job.
        policy: decides which role starts, restarts and stops when.
        directory: where the workers of each role are.
        roles: what runs each role, by name.
        histories: what was seen of the last run of each role, by name.
        began: when it has begun, on the loop's clock.
        abandoned: whether a third interrupt has ended it without waiting for its nodes.
    """

    def __init__(
        self, spec: RolesSpec, fleet: NodeFleet, console: Console, on_over: Callable[[], None]
    ) -> None:
        """Prepare it; `on_over` is called from the loop once nothing of it is left."""
        self.spec, self.fleet, self.loop = spec, fleet, fleet.loop
        self._console, self._on_over = console, on_over
        self.began = self.loop.clock()
        self.policy = RolesPolicy(spec.roles, self.loop.awake())
        self.directory = Directory(node.name for node in fleet.nodes.values())
        ports = PortChecks(fleet)
        self._readiness = {role.name: self._ready(role, ports) for role in spec.roles}
        self.roles = {role.name: self._role(n, role) for n, role in enumerate(spec.roles)}
        hosts = [node.host for node in spec.job.plan.nodes]
        plans = [role.job.plan for role in spec.roles]
        self._spares = Spares(hosts, plans, lost=self._is_lost, doubtful=self._is_doubtful)
        self._idle: set[NodeConnection] = set()
        self._queue = EventQueue()
        self.histories = {role.name: RunHistory(self.loop.clock) for role in spec.roles}
        self._socket: JobSocket | None = None
        self._observers: list[Callable[[ObservedRun], None]] = []
        self._hooks = self._told()
        self.abandoned, self._over, self._code = False, False, 0
        self._requests = StopRequests()
        expire = partial(self.handle, events.RoleTimePassed())
        self._alarm = DueTimer(self.loop, self.loop.awake, expire)

    def _role(self, number: int, role: RoleSpec) -> RoleRun:
        console: Any = RoleConsole(self._console, role.name, number)
        job = job_of(role, self.spec.job)
        owner = RunOverrides(greeting=self.directory.frame, on_unreached=self._on_unreached)
        return RoleRun(job, self.fleet, console, self.handle, self._observe, self._look, owner)

    def _ready(self, role: RoleSpec, ports: PortChecks) -> RoleReadiness:
        users = [other.name for other in self.spec.roles if role.name in other.after]
        nodes = lambda: self.roles[role.name].connections  # noqa: E731
        return RoleReadiness(role, users, nodes, ports, self.fleet, self.directory, self.handle)

    def _observe(self, run: ObservedRun) -> None:
        """Look at a run of a role that has not begun."""
        name = run.role
        self._readiness[name].watch_output(
            run.observe, lambda text: self.log(f"{name}: {text}", "warning")
        )
        self.histories[name] = RunHistory(self.loop.clock, self.histories[name])
        run.observe(self.histories[name].on_event)
        for observe in self._observers:
            observe(run)
        run.observe(partial(self._on_run_event, run))

    def _on_run_event(self, run: ObservedRun, event: RunEvent) -> None:
        if type(event) in {Lost, Round} and run.view().started:
            self._update(run.role)

    def _told(self) -> RolesHooks | None:
        """Return what tells other programs of the job, if it has any."""
        job = self.spec.job
        if not job.hooks.on_event and job.hooks.metrics_file is None:
            return None
        from .hooks import RolesHooks

        ask_usage = self.fleet.node_queries.ask_usage
        hooks = RolesHooks(job, self.loop, self.policy.courses, self.log, ask_usage)
        self.observe_runs(hooks.observe)
        return hooks

    def observe_runs(self, observe: Callable[[ObservedRun], None]) -> None:
        """Have a function called with each run of a role before it begins."""
        self._observers.append(observe)

    @property
    def programs(self) -> dict[str, Program]:
        """What each role runs, by its name."""
        return {role.name: role.job.plan.program for role in self.spec.roles}

    def painter(self) -> Callable[[Ending], str] | None:
        """Return what draws the picture of the job once it has ended; None if none was asked for.

        It is called before the job begins, and all runs are observed from then on.
        """
        if not is_page(self.spec.job.output.report_file):
            return None
        ends = {role.name: role.ends for role in self.spec.roles}
        observe, draw = roles_painter(self.loop.clock, self.programs, ends)
        self.observe_runs(observe)
        return draw

    def tell_end(self, ending: Ending) -> list[Callable[[], None]]:
        """Tell other programs how it has ended; return what waits in a thread for them."""
        return [] if self._hooks is None else self._hooks.end(ending)

    def begin(self) -> None:
        """Say what planning has noted of roles, and have the nodes of all get ready."""
        noted = dict[str, list[str]]()
        for role in self.spec.roles:
            for note in role.job.origin.notes:
                noted.setdefault(note, []).append(role.name)
        for note, names in noted.items():
            if note not in self.spec.job.origin.notes:
                self.log(f"{', '.join(names)}: {note}")
        self.fleet.watch()  # those that are ready hear of this process while others start
        self._socket = JobSocket(self.loop, self.spec.job.job_id, self._verbs, self.log)
        self.handle(events.JobBegun())

    def _verbs(self) -> dict[str, Verb]:
        from .requests import RolesRequests

        return RolesRequests(self).verbs

    def close(self) -> None:
        """Take no more requests of dsrun-job."""
        if self._socket is not None:
            self._socket.close()

    def tell(self, ending: Ending) -> None:
        """Tell those who wait for the end of the job how it has ended."""
        if self._socket is not None:
            self._socket.tell(ending)

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self._console.log(text, level)

    @property
    def started(self) -> bool:
        """Whether workers of some role run, or have run."""
        return any(course.ran for course in self.policy.courses.values())

    @property
    def ending(self) -> bool:
        """Whether its roles are being stopped."""
        return self.policy.ending

    def call_off(self, reason: str) -> None:
        """Give up the start for this reason; if workers run already, only warn."""
        first = next(iter(self.roles.values()))
        if self.started or first.view is None:
            self.log(reason, "warning")
        else:
            first.handle(CallOff(reason))

    def refuse(self, error: DsrunError) -> None:
        """End the job with this error; if workers run already, only log it."""
        first = next(iter(self.roles.values()))
        if self.started or first.view is None:
            self.log(str(error), "error")
        else:
            first.handle(Refuse(error))

    def conclude(self) -> RolesEnding:
        """Return how it has ended."""
        return self._ended({name: role.ending for name, role in self.roles.items()})

    def so_far(self) -> RolesEnding:
        """Return the same as far as is known while it runs."""
        runs = {name: role.view for name, role in self.roles.items()}
        return self._ended({name: ending_of(run) if run else None for name, run in runs.items()})

    def _ended(self, endings: Mapping[str, Ending | None]) -> RolesEnding:
        sections = {
            name: Section(
                *(one.role.ends, one.state.value, one.ran, one.restarts, endings[name]),
                self.roles[name].unseen,
            )
            for name, one in self.policy.courses.items()
        }
        times = self.began, self.loop.clock()
        return RolesEnding(self.spec.job.job_id, sections, self.policy.cause, self._code, times)

    # -- decisions --------------------------------------------------------------------------

    def handle(self, event: RoleEvent) -> None:
        """Tell the policy what has happened, and do what follows; one event after another."""
        self._queue.put(self._step, event)

    def _step(self, event: RoleEvent) -> None:
        self._note(event)
        event = self._explained(event)
        for action in self.policy.step(self.loop.awake(), event):
            self._act(action)
        self._alarm.set(self.policy.due)
        self._look()

    def _explained(self, event: RoleEvent) -> RoleEvent:
        """Return the end of a role with what was lost, and whether it has a spare for that."""
        if not isinstance(event, (events.RoleFailing, events.RoleEnded)):
            return event
        role = self.roles[event.role]
        event = event._replace(loss=role.loss)
        if isinstance(event, events.RoleEnded):
            event = event._replace(moves=self._spares.moves(role.spec.plan))
        return event

    def _look(self) -> None:
        """End once the job is over, and all hooks have been told, after what is under way."""
        self._queue.put(self._end_if_over, None)

    def _end_if_over(self, _event: None) -> None:
        leaving = any(role.leaving for role in self.roles.values())
        if self.policy.over and not leaving and not self._over:
            self._over = True
            self._on_over()

    def _note(self, event: RoleEvent) -> None:
        match event:
            case events.RolePrepared(name):
                self._update(name)
            case events.RoleReady():
                self._publish()
            case events.RoleFailing(name) | events.RoleEnded(name):
                self._readiness[name].stop()
                self._follow()

    def _act(self, action: RoleAction) -> None:
        match action:
            case PrepareRole(name):
                self._prepare(name)
            case StartRole(name):
                self._publish(name)
                self._readiness[name].starting()
                self.roles[name].start()
            case CheckReady(name):
                self._readiness[name].begin()
            case StopRole(name, number, kill):
                self._readiness[name].stop()
                cause = self.policy.cause
                why = cause.why if cause is not None and cause.number else None
                self.roles[name].stop(number, kill=kill, why=why)
            case RolesLog(text, level):
                self.log(text, level)
            case EndRoles(code):
                self._code = code

    def _prepare(self, name: str) -> None:
        """Have the nodes of a role get ready, and spares in place of those that are lost."""
        moved = self._move(name)
        self.roles[name].prepare(self.directory.ports(name))
        for lost in moved:
            self._move_elastic(lost)

    def _move(self, name: str, only: str = "") -> dict[str, str]:
        """Put spares in the plan of a role in place of nodes that are lost, or of `only` one."""
        role = self.roles[name]
        plan, moved = self._spares.replace(role.spec.plan, only)
        for lost, spare in moved.items():
            self.log(f"{name}: {lost} is lost; {spare} takes its place", "warning")
        role.spec = role.spec._replace(plan=plan)
        return moved

    def _on_unreached(self, node: RunNode) -> None:
        """Have a spare in place of a node of an elastic role that could not be reached again.

        Over a lane it cannot be reached before the role that uses the node itself has reached it.
        """
        first = next(one for one in self.fleet.nodes.values() if one.name == node.name)
        if first is node.connection or first.on_event is None:
            self._move_elastic(node.name)

    def _move_elastic(self, lost: str) -> None:
        """Have a spare in place of a lost node in the next round of each elastic role there."""
        for name, role in self.roles.items():
            run = role.view
            if run is None or run.phase is not RunPhase.RUNNING or run.spec.elastic is None:
                continue
            for spare in self._move(name, lost).values():
                nodes = role.spec.plan.nodes
                host = next(one.host for one in nodes if one.host.name == spare)
                role.handle(ReplaceHost(lost, host))

    def _is_lost(self, name: str) -> bool:
        return any(bool(one.lost) for one in self._named(name))

    def _is_doubtful(self, name: str) -> bool:
        return any(self.fleet.is_doubtful(one) for one in self._named(name))

    def _named(self, name: str) -> Iterator[NodeConnection]:
        return (one for one in self.fleet.nodes.values() if one.name == name)

    def on_idle(self, event: FleetEvent) -> None:
        """Have a spare send heartbeats from the beginning; the fleet tells if it is lost then."""
        match event:
            case NodeConnected(node):
                self._idle.add(node)
                node.send(messages.pack(frames.LEASE, Lease(self.fleet.lease)))
                self.fleet.expect_beats(node)
            case NodeEnded(node, cause) if node not in self._idle and self._spares.has(node.name):
                self.log(f"cannot reach {node.name}, a spare: {cause or NO_MESSAGE}", "warning")

    # -- who is where -----------------------------------------------------------------------

    def _update(self, name: str) -> None:
        """Take the nodes of a role as they are now, and tell all roles."""
        run = self.roles[name].view
        if run is None or run.ending:
            return
        for text in self.directory.update(name, run.nodes):
            self.log(text, "warning")
        self._publish()
        self._follow()

    def _follow(self) -> None:
        """Have roles that are not ready asked by nodes that are there, at their places now."""
        for readiness in self._readiness.values():
            readiness.follow()

    def _publish(self, starting: str = "") -> None:
        """Tell the nodes of all roles that run, and of one that starts, where all of them are."""
        frame = self.directory.frame()
        for role in self.roles.values():
            role.publish(frame, starts=role.name == starting)

    # -- signals ----------------------------------------------------------------------------

    def end(self, number: int, why: str = "") -> None:
        """Handle a signal that ends the job: stop, then kill, then leave.

        `why` is told in its place if nobody has sent it.
        """
        match self._requests.next(number):
            case StopStep.LEAVE:
                self._leave()
            case StopStep.KILL:
                self.log("killing all ranks now", "warning")
                self.handle(events.Killed(number))
            case StopStep.STOP:
                self._tell_stop(number, why or signal.Signals(number).name)
                self.handle(events.Interrupted(number, why))

    def _tell_stop(self, number: int, why: str) -> None:
        more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
        self.log(f"{why}: stopping all roles, dependants first{more}", "warning")

    def _leave(self) -> None:
        """Wait for nothing that still runs."""
        if self.abandoned:
            return
        self.abandoned = True
        left = {name for one in self.roles.values() for name in one.unfinished}
        names = ", ".join(sorted(left)) or "none"
        self.log(f"exiting now; may still be running on: {names}", "error")
        for role in self.roles.values():
            role.abandon()

    def pass_on(self, number: int) -> None:
        """Handle a signal that does not end the job."""
        if number == signal.SIGTSTP:
            self.fleet.suspend()
            return
        for role in self.roles.values():
            role.handle(OtherSignal(number))

    def on_broken_output(self) -> None:
        """Stop the job: the reader of its output has gone."""
        if not self.policy.ending:
            self.handle(events.Interrupted(signal.SIGPIPE))


def job_of(role: RoleSpec, whole: JobSpec) -> JobSpec:
    """Return the job of a role as it is run: on the nodes of the whole job, and as a part of it."""
    job, service = role.job, role.ends == "never"
    supervision, output = whole.supervision, job.output
    prefix = PREFIX if output.prefix == type(output)().prefix else output.prefix
    return job._replace(
        job_id=whole.job_id,
        role=role.name,
        ports=role.ports,
        plan=job.plan._replace(launcher=whole.plan.launcher),
        backend=whole.backend,
        workers=job.workers._replace(role=role.name),
        supervision=job.supervision._replace(heartbeat_timeout=supervision.heartbeat_timeout),
        output=output._replace(prefix=prefix, report_file=None),
        # A server that waits for requests does nothing for any time.
        watch=job.watch._replace(hang_timeout=0.0) if service else job.watch,
        dial_in=whole.dial_in,
        held=True,
        environ=whole.environ,
    )
