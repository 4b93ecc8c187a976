"""A job of roles on a fleet that a test plays: the nodes speak, and the clock goes when told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.command_messages import CommandExit
from dsrun.launcher.control.role_messages import Ports
from dsrun.launcher.features.roles.runner_job import RolesJob
from dsrun.launcher.specs.policies import ElasticPolicy, HookPolicy
from dsrun.launcher.specs.roles import Ready, RoleSpec, RolesSpec

from .fake_fleet import FakeFleet

if TYPE_CHECKING:
    from dsrun.launcher.head.output.console import Console

HOSTS = {"server": ("n0",), "trainer": ("n1", "n2")}
"""Which role has which nodes."""


class FakeRoles(FakeFleet):
    """A server and a trainer that starts after it, on nodes of their own.

    Attributes:
        job: the roles.
        overs: how often the job has told that nothing is left.
        unbound: hosts that do not say that the workers there listen on the ports of their role.
    """

    def __init__(
        self,
        ready: Ready = Ready(),  # noqa: B008
        hooks: HookPolicy = HookPolicy(),  # noqa: B008
        spares: tuple[str, ...] = (),
        elastic: ElasticPolicy | None = None,
        trainer: dict[str, Any] | None = None,
        **server: Any,
    ) -> None:
        super().__init__("n0", "n1", "n2", *spares, shares=True)
        self.overs = 0
        self.unbound: set[str] = set()
        self._said: set[tuple[int, int]] = set()
        roles = (
            RoleSpec("server", self.spec("n0"), "never", ready=ready, **server),
            RoleSpec(
                "trainer",
                self.spec("n1", "n2", elastic=elastic),
                "job",
                ("server",),
                **trainer or {},
            ),
        )
        console = cast("Console", self.console)
        spec = RolesSpec(self.spec(hooks=hooks), roles)
        self.console.flush = lambda then: then()  # type: ignore[attr-defined]
        self.console.still_shows = lambda _lines: False  # type: ignore[attr-defined]
        self.job = RolesJob(spec, self.fleet, console, self._over)
        self.fleet.on_idle = self.job.effects.on_idle

    def _over(self) -> None:
        self.overs += 1

    def step(self) -> None:
        """Let happen what can happen at once; ports are the workers' own."""
        super().step()
        for node in self.backend.made:
            for at, (kind, body) in enumerate(node.received):
                asked = kind == frames.PORTS_ASK and (id(node), at) not in self._said
                if asked and node.open and node.name not in self.unbound:
                    self._said.add((id(node), at))
                    node.says(messages.pack(frames.PORTS, Ports(json.loads(body)["id"])))
        super().step()

    def begin(self) -> None:
        """Begin the job, connect all nodes, and have them say that they are fit."""
        self.job.start()
        self.connect()
        for role in HOSTS:
            self.are_fit(role)

    def are_fit(self, role: str, **facts: Any) -> None:
        """Have the nodes of a role say HELLO, and reach their master."""
        first, *others = HOSTS[role]
        ports = tuple(7000 for _ in self.job.roles[role].spec.ports)
        self.node(first).hello(**{"port": 29500, "ports": ports} | facts)
        for name in others:
            self.node(name).hello(port=None)
        self.step()
        for name in others:
            if self.node(name).got(frames.PROBE)():
                self.node(name).reaches()
        self.step()

    def are_up(self, role: str) -> None:
        """Have the nodes of a role say that their workers run."""
        self.node(HOSTS[role][0]).beats()
        self.step()
        for at, name in enumerate(HOSTS[role]):
            self.up(name, 2 * at, 2 * at + 1)
        if role == "server":
            self.answers("n1", 0)

    def answers(self, name: str, *addresses: int) -> None:
        """Have the program on a node, that was started last, say which addresses have answered."""
        self.step()
        bodies = [body for kind, body in self.node(name).received if kind == frames.EXEC]
        number = json.loads(bodies[-1])["id"]
        line = json.dumps({"server": 0, "answered": addresses}).encode() + b"\n"
        self.node(name).says(frames.pack_numbered(frames.EXEC_OUTPUT, number, b"\x01" + line))
        ended = CommandExit(number, 0, "")
        self.node(name).says(messages.pack(frames.EXEC_EXIT, ended))
        self.step()

    def run_all(self) -> None:
        """Begin, with all workers running."""
        self.begin()
        self.are_up("server")
        self.are_up("trainer")

    def ends(self, role: str, code: int = 0, *, told: bool = False) -> None:
        """Have all workers of a role end, and its nodes say that nothing is left."""
        for at, name in enumerate(HOSTS[role]):
            for rank in (2 * at, 2 * at + 1):
                self.node(name).exits(rank, code, told=told)
            self.node(name).done()
        self.step()

    def fails(self, role: str, code: int) -> None:
        """Have one worker of a role fail."""
        self.node(HOSTS[role][0]).exits(0, code)
        self.step()

    def got(self, role: str, kind: int) -> int:
        """Return how many frames of a kind the nodes of a role have been sent."""
        received = [one for name in HOSTS[role] for one, _ in self.node(name).received]
        return received.count(kind)

    def peers(self, name: str) -> dict[str, Any]:
        """Return what a node was told last of all roles."""
        bodies = [body for kind, body in self.node(name).received if kind == frames.PEERS]
        from dsrun.launcher.control.role_messages import RolePeers

        return {n: one._asdict() for n, one in messages.unpack(RolePeers, bodies[-1]).peers.items()}

    def states(self) -> dict[str, str]:
        """Return the state of each role."""
        return {name: one.state.value for name, one in self.job.policy.courses.items()}
