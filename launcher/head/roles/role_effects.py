"""Carries out the actions of a job's roles on its fleet, and knows where each role is."""

from __future__ import annotations

from ...control import frames, messages
from ...control.role_messages import Lease
from ..fleet.events import NO_MESSAGE, NodeConnected, NodeEnded
from ..run.run import RunOverrides
from ..run.run_view import RunPhase
from .directory import Directory
from .port_checks import PortChecks
from .readiness import RoleReadiness
from .role_console import RoleConsole
from .role_run import RoleRun
from .spares import Spares

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...specs.job import JobSpec
    from ...specs.roles import RoleSpec, RolesSpec
    from ..fleet.events import FleetEvent
    from ..fleet.fleet import NodeFleet
    from ..fleet.node_connection import NodeConnection
    from ..output.screen import Screen
    from ..run.run_node import RunNode
    from ..run.run_view import ObservedRun
    from .policy import Cause
    from .role_run import RoleNews

PREFIX = "{role}/{host}:{rank}| "
"""The label of the lines of a role, unless its job has another one than usual."""


class RoleEffects:
    """The actions of one job's roles (`RoleActions`).

    Attributes:
        directory: where the workers of each role are.
        roles: what runs each role, by name.
        code: the exit code of the job, once it is over.
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
        """Prepare.

        Args:
            spec: the job.
            fleet: has the nodes of all roles.
            console: where output and messages go.
            news: is told what happens to the roles.
            observe: called with each run of a role before it begins.
            on_left: called whenever all hooks have been told of the end of a run.
            cause: returns why the job ends before its time; None if it does not.
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
        """Have the nodes of a role get ready, and spares in place of those that are lost."""
        moved = self._move(role)
        self.roles[role].prepare(self.directory.ports(role))
        for lost in moved:
            self._move_elastic(lost)

    def start(self, role: str) -> None:
        """Start the workers of a role, which know where all others are."""
        self.publish(role)
        self._readiness[role].starting()
        self.roles[role].start()

    def check_ready(self, role: str) -> None:
        """Find out when a role, whose workers run, is ready."""
        self._readiness[role].begin()

    def stop(self, role: str, number: int, *, kill: bool = False) -> None:
        """Stop the workers of a role, or leave its nodes if there are none."""
        self._readiness[role].stop()
        cause = self._cause()
        why = cause.why if cause is not None and cause.number else None
        self.roles[role].stop(number, kill=kill, why=why)

    def finish(self, code: int) -> None:
        """Keep the exit code of the job."""
        self.code = code

    # -- spares -----------------------------------------------------------------------------

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
        first = next(one for one in self._fleet.nodes.values() if one.name == node.name)
        if first is node.connection or first.on_event is None:
            self._move_elastic(node.name)

    def _move_elastic(self, lost: str) -> None:
        """Have a spare in place of a lost node in the next round of each elastic role there."""
        from ..elastic import runner_rounds

        for name, role in self.roles.items():
            run = role.view
            if run is None or run.phase is not RunPhase.RUNNING or run.spec.elastic is None:
                continue
            for spare in self._move(name, lost).values():
                nodes = role.spec.plan.nodes
                host = next(one.host for one in nodes if one.host.name == spare)
                role.handle(runner_rounds.replace_host, lost, host)

    def _is_lost(self, name: str) -> bool:
        return any(bool(one.lost) for one in self._named(name))

    def _is_doubtful(self, name: str) -> bool:
        return any(self._fleet.is_doubtful(one) for one in self._named(name))

    def _named(self, name: str) -> Iterator[NodeConnection]:
        return (one for one in self._fleet.nodes.values() if one.name == name)

    def on_idle(self, event: FleetEvent) -> None:
        """Have a spare send heartbeats from the beginning; the fleet tells if it is lost then."""
        match event:
            case NodeConnected(node):
                self._idle.add(node)
                node.send(messages.pack(frames.LEASE, Lease(self._fleet.lease)))
                self._fleet.expect_beats(node)
            case NodeEnded(node, cause) if node not in self._idle and self._spares.has(node.name):
                self.log(f"cannot reach {node.name}, a spare: {cause or NO_MESSAGE}", "warning")

    # -- who is where -----------------------------------------------------------------------

    def update(self, name: str) -> None:
        """Take the nodes of a role as they are now, and tell all roles."""
        run = self.roles[name].view
        if run is None or run.ending:
            return
        for text in self.directory.update(name, run.nodes):
            self.log(text, "warning")
        self.publish()
        self.follow()

    def follow(self) -> None:
        """Have roles that are not ready asked by nodes that are there, at their places now."""
        for readiness in self._readiness.values():
            readiness.follow()

    def publish(self, starting: str = "") -> None:
        """Tell the nodes of all roles that run, and of one that starts, where all of them are."""
        frame = self.directory.frame()
        for role in self.roles.values():
            role.publish(frame, starts=role.name == starting)

    def failed(self, role: str) -> None:
        """Ask no more whether a role is ready: its workers are being stopped, or have ended."""
        self._readiness[role].stop()
        self.follow()

    def watch_output(self, run: ObservedRun) -> None:
        """Look at the output of a run that has not begun, if that tells when its role is ready."""
        name = run.role
        self._readiness[name].watch_output(
            run.observe, lambda text: self.log(f"{name}: {text}", "warning")
        )

    def moves(self, role: str) -> bool:
        """Return whether a role would have a spare in place of a lost node if prepared again."""
        return self._spares.moves(self.roles[role].spec.plan)


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
