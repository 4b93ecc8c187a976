"""The roles of a job without processes: a world that does what their policy asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsrun.launcher.head.roles import role_actions as actions
from dsrun.launcher.head.roles import role_events as events
from dsrun.launcher.head.roles.policy import RolesPolicy
from dsrun.launcher.specs.roles import Ready, RoleSpec

if TYPE_CHECKING:
    from dsrun.launcher.head.roles.role_events import RoleEvent


def role(name: str, ends: str = "wait", *after: str, **more: Any) -> RoleSpec:
    """Return a role; its job does not matter."""
    ready = more.pop("ready", "started")
    limit = more.pop("timeout", 600.0)
    nothing: Any = None
    return RoleSpec(name, nothing, ends, after, Ready(ready, timeout=limit), **more)


class RolesWorld:
    """Roles and their policy; what it asks for is noted, and checked.

    Attributes:
        now: the time in seconds.
        policy: under test.
        prepared: the roles whose nodes get ready, or are.
        running: the roles that have workers.
        stops: (role, signal, kill) of every stop that was asked for.
        asked: everything that was asked for, in order.
        ends: the exit codes of the job.
    """

    def __init__(self, *roles: RoleSpec) -> None:
        self.now = 0.0
        self.roles = {one.name: one for one in roles}
        self.policy = RolesPolicy(roles, self.now)
        self.prepared: set[str] = set()
        self.running: set[str] = set()
        self.was_ready: set[str] = set()
        self.ended_well: set[str] = set()
        self.stops: list[tuple[str, int, bool]] = []
        self.asked: list[Any] = []
        self.ends: list[int] = []

    # -- what happens -----------------------------------------------------------------------

    def happens(self, event: RoleEvent) -> None:
        """Tell the policy, and do what it asks for."""
        match event:
            case events.RoleEnded(name, code):
                self.running.discard(name)
                self.prepared.discard(name)
                self.was_ready.discard(name)
                if not code:
                    self.ended_well.add(name)
            case events.RoleReady(name):
                self.was_ready.add(name)
        for action in self.policy.step(self.now, event):
            self._do(action)

    def begin(self, *names: str) -> None:
        """Begin the job; the nodes of these roles, or of all, are ready."""
        self.happens(events.JobBegun())
        for name in names or self.roles:
            self.happens(events.RolePrepared(name))

    def started(self, *names: str) -> None:
        """All workers of these roles run."""
        for name in names:
            self.happens(events.RoleStarted(name))

    def end(self, name: str, code: int = 0) -> None:
        """Nothing of a role is left."""
        self.happens(events.RoleEnded(name, code))

    def go(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (due := self.policy.due) is not None and due <= end:
            self.now = max(self.now, due)
            self.happens(events.RoleTimePassed())
        self.now = end

    # -- what is asked for ------------------------------------------------------------------

    def _do(self, action: Any) -> None:
        self.asked.append(action)
        match action:
            case actions.PrepareRole(name):
                assert name not in self.prepared | self.running
                self.prepared.add(name)
            case actions.StartRole(name):
                assert name in self.prepared
                needs = self.roles[name].after
                assert {*needs} <= self.was_ready | self.ended_well, f"{name} starts too early"
                self.prepared.discard(name)
                self.running.add(name)
            case actions.CheckReady(name) if self.roles[name].ready.kind == "started":
                self.happens(events.RoleReady(name))
            case actions.StopRole(name, number, kill):
                assert name in self.prepared | self.running
                self.stops.append((name, number, kill))
            case actions.EndRoles(code):
                assert not self.prepared | self.running
                self.ends.append(code)

    def said(self) -> list[str]:
        """Return the lines for the user so far, but those for debugging."""
        lines = [one for one in self.asked if isinstance(one, actions.RolesLog)]
        return [one.text for one in lines if one.level != "debug"]

    def stopped(self) -> list[str]:
        """Return which roles were to be stopped, in order."""
        return [name for name, _, _ in self.stops]
