"""Carries out the decisions about the roles of a job on its fleet."""

from __future__ import annotations

from ...control import frames, messages
from ...control.role_messages import Lease
from ...head.fleet.events import NO_MESSAGE, NodeConnected, NodeEnded
from ...head.run.run import RunOverrides
from ...head.run.run_view import RunPhase
from .runner_console import RoleConsole
from .runner_directory import Directory
from .runner_port_checks import PortChecks
from .runner_probe import RoleReadiness
from .runner_run import RoleRun
from .runner_spares import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...head.fleet.events import FleetEvent
    from ...head.fleet.fleet import NodeFleet
    from ...head.fleet.node_connection import NodeConnection
    from ...head.output.screen import Screen
    from ...head.run.run_node import RunNode
    from ...head.run.run_view import ObservedRun
    from ...specs.job import JobSpec
    from ...specs.roles import RoleSpec, RolesSpec
    from .runner_policy import Cause
    from .runner_run import RoleNews

PREFIX = "{role}/{host}:{rank}| "
"""The label of the output of a role, unless the job has a label other than the default."""


class RoleEffects:
    """The actions of one job's roles (`RoleActions`).

    Attributes:
        directory: the addresses and ports of the workers of each role.
        roles: the runs of each role, by name.
        code: the exit code of the job, once the job is over.
    """

    def __init__(
        self,
        spec: RolesSpec,
        fleet: NodeFleet,
        console: Screen,
        news: RoleNews,
        observe: Callable[[ObservedRun], None],
        on_left: Callable[[], None],
        cause: Callable[[], Cause | None],
    ) -> None:
        """Prepare the roles.

        Args:
            spec: the job.
            fleet: has the nodes of all roles.
            console: prints output and messages.
            news: receives the events of the roles.
            observe: called with each run of a role before the run begins.
            on_left: called whenever all hooks have received the end of a run.
            cause: returns the reason for an early end of the job; None without one.
        """
        self._spec, self._fleet, self._console, self._news = spec, fleet, console, news
        self._observe, self._on_left, self._cause = observe, on_left, cause
        self.log, self.code = console.log, 0
        self.directory = Directory(node.name for node in fleet.nodes.values())
        ports = PortChecks(fleet)
        self._readiness = {role.name: self._ready(role, ports) for role in spec.roles}
        self.roles = {role.name: self._role(n, role) for n, role in enumerate(spec.roles)}
        hosts = [node.host for node in spec.job.plan.nodes]
        plans = [role.job.plan for role in spec.roles]
        self._spares = Spares(hosts, plans, lost=self._is_lost, doubtful=self._is_doubtful)
        self._idle: set[NodeConnection] = set()

    def _role(self, number: int, role: RoleSpec) -> RoleRun:
        console = RoleConsole(self._console, role.name, number)
        job = job_of(role, self._spec.job)
        owner = RunOverrides(greeting=self.directory.frame, on_unreached=self._on_unreached)
        watched = self._observe, self._on_left
        return RoleRun(job, self._fleet, console, self._news, *watched, owner)

    def _ready(self, role: RoleSpec, ports: PortChecks) -> RoleReadiness:
        users = [other.name for other in self._spec.roles if role.name in other.after]
        nodes = lambda: self.roles[role.name].connections  # noqa: E731
        places = self._fleet, self.directory
        return RoleReadiness(role, users, nodes, ports, *places, self._news)

    # -- actions ----------------------------------------------------------------------------

    def prepare(self, role: str) -> None:
        """Prepare the nodes of a role, with spares in place of lost nodes."""
        moved = self._move(role)
        self.roles[role].prepare(self.directory.ports(role))
        for lost in moved:
            self._move_elastic(lost)

    def start(self, role: str) -> None:
        """Start the workers of a role, after sending them the addresses of all roles."""
        self.publish(role)
        self._readiness[role].starting()
        self.roles[role].start()

    def check_ready(self, role: str) -> None:
        """Start the readiness check of a role whose workers run."""
        self._readiness[role].start()

    def stop(self, role: str, number: int, *, kill: bool = False) -> None:
        """Stop the workers of a role, or give its nodes back if none run."""
        self._readiness[role].stop()
        cause = self._cause()
        why = cause.why if cause is not None and cause.number else None
        self.roles[role].stop(number, kill=kill, why=why)

    def finish(self, code: int) -> None:
        """Record the exit code of the job."""
        self.code = code

    # -- spares -----------------------------------------------------------------------------

    def _move(self, name: str, only: str = "") -> dict[str, str]:
        """Replace lost nodes in the plan of a role, or `only` one of them, by spares."""
        role = self.roles[name]
        plan, moved = self._spares.replace(role.spec.plan, only)
        for lost, spare in moved.items():
            self.log(f"{name}: {lost} is lost; {spare} takes its place", "warning")
        role.spec = role.spec._replace(plan=plan)
        return moved

    def _on_unreached(self, node: RunNode) -> None:
        """Replace a node that could not be reached again, in elastic roles, by a spare.

        Over a lane, the node cannot be reached before the role that owns the connection reaches it.
        """
        first = next(one for one in self._fleet.nodes.values() if one.name == node.name)
        if first is node.connection or first.on_event is None:
            self._move_elastic(node.name)

    def _move_elastic(self, lost: str) -> None:
        """Replace a lost node by a spare in the next round of each elastic role on the node."""
        from ..elastic.runner_policy import replace_host

        for name, role in self.roles.items():
            run = role.view
            if run is None or run.phase is not RunPhase.RUNNING or run.spec.elastic is None:
                continue
            for spare in self._move(name, lost).values():
                nodes = role.spec.plan.nodes
                host = next(one.host for one in nodes if one.host.name == spare)
                role.handle(replace_host, lost, host)

    def _is_lost(self, name: str) -> bool:
        return any(bool(one.lost) for one in self._named(name))

    def _is_doubtful(self, name: str) -> bool:
        return any(self._fleet.is_doubtful(one) for one in self._named(name))

    def _named(self, name: str) -> Iterator[NodeConnection]:
        return (one for one in self._fleet.nodes.values() if one.name == name)

    def on_idle(self, event: FleetEvent) -> None:
        """Expect heartbeats of a spare from its connection on, so that its loss is noticed."""
        match event:
            case NodeConnected(node):
                self._idle.add(node)
                node.send(messages.pack(frames.LEASE, Lease(self._fleet.lease)))
                self._fleet.expect_beats(node)
            case NodeEnded(node, cause) if node not in self._idle and self._spares.has(node.name):
                self.log(f"cannot reach {node.name}, a spare: {cause or NO_MESSAGE}", "warning")

    # -- who is where -----------------------------------------------------------------------

    def update(self, name: str) -> None:
        """Record the present nodes of a role, and send them to all roles."""
        run = self.roles[name].view
        if run is None or run.ending:
            return
        for text in self.directory.update(name, run.nodes):
            self.log(text, "warning")
        self.publish()
        self.follow()

    def follow(self) -> None:
        """Repeat the questions of readiness checks whose nodes have changed."""
        for readiness in self._readiness.values():
            readiness.follow()

    def publish(self, starting: str = "") -> None:
        """Send the addresses of all roles to the running roles, and to one that is starting."""
        frame = self.directory.frame()
        for role in self.roles.values():
            role.publish(frame, starts=role.name == starting)

    def failed(self, role: str) -> None:
        """Cancel the readiness check of a role: its workers are being stopped, or have ended."""
        self._readiness[role].stop()
        self.follow()

    def watch_output(self, run: ObservedRun) -> None:
        """Search the output of a run that has not begun, if the readiness check is for a line."""
        name = run.role
        self._readiness[name].watch_output(
            run.observe, lambda text: self.log(f"{name}: {text}", "warning")
        )

    def moves(self, role: str) -> bool:
        """Return whether a spare would replace a lost node of a role if prepared again."""
        return self._spares.moves(self.roles[role].spec.plan)


def job_of(role: RoleSpec, whole: JobSpec) -> JobSpec:
    """Return the job of a role as a part of the whole job, on nodes of the whole job."""
    job, service = role.job, role.ends == "never"
    supervision, output = whole.supervision, job.output
    prefix = PREFIX if output.prefix == type(output)().prefix else output.prefix
    return job._replace(
        job_id=whole.job_id,
        role=role.name,
        ports=role.ports,
        plan=job.plan._replace(launcher=whole.plan.launcher),
        backend=whole.backend.for_run(job.backend),
        workers=job.workers._replace(role=role.name),
        supervision=job.supervision._replace(heartbeat_timeout=supervision.heartbeat_timeout),
        output=output._replace(prefix=prefix, report_file=None),
        # An idle server does not hang: it waits for requests.
        watch=job.watch._replace(hang_timeout=0.0) if service else job.watch,
        dial_in=whole.dial_in,
        held=True,
        environ=whole.environ,
    )
