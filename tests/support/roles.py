"""The roles of a job without processes: a world that does what their policy asks for."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from dsrun.launcher.common.event_queue import EventQueue
from dsrun.launcher.features.roles.runner_policy import RolesPolicy
from dsrun.launcher.specs.roles import Ready, RoleSpec

if TYPE_CHECKING:
    from collections.abc import Callable


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
        self.policy = RolesPolicy(roles, self.now, self)
        self._queue = EventQueue()
        self._lines: list[str] = []
        self.prepared: set[str] = set()
        self.running: set[str] = set()
        self.was_ready: set[str] = set()
        self.ended_well: set[str] = set()
        self.stops: list[tuple[str, int, bool]] = []
        self.asked: list[Any] = []
        self.ends: list[int] = []

    # -- what happens -----------------------------------------------------------------------

    def happens(self, happened: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Have the policy handle an event, a call of it; what it asks for is done."""
        self._queue.put(self.policy.step, self.now, partial(happened, *args, **kwargs))

    def begin(self, *names: str) -> None:
        """Begin the job; the nodes of these roles, or of all, are ready."""
        self.happens(self.policy.job_started)
        for name in names or self.roles:
            self.happens(self.policy.role_prepared, name)

    def started(self, *names: str) -> None:
        """All workers of these roles run."""
        for name in names:
            self.happens(self.policy.role_started, name)

    def ready(self, name: str) -> None:
        """The check of a role's readiness has succeeded."""
        self.was_ready.add(name)
        self.happens(self.policy.role_ready, name)

    def end(self, name: str, code: int = 0, loss: str = "", *, moves: bool = False) -> None:
        """Nothing of a role is left."""
        self.running.discard(name)
        self.prepared.discard(name)
        self.was_ready.discard(name)
        if not code:
            self.ended_well.add(name)
        self.happens(self.policy.role_ended, name, code, loss, moves=moves)

    def go(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while (due := self.policy.due) is not None and due <= end:
            self.now = max(self.now, due)
            self.happens(self.policy.time_passed)
        self.now = end

    # -- what is asked for (`RoleActions`) --------------------------------------------------

    def prepare(self, role: str) -> None:
        """Have the nodes of a role get ready."""
        self.asked.append(("prepare", role))
        assert role not in self.prepared | self.running
        self.prepared.add(role)

    def start(self, role: str) -> None:
        """Start the workers of a role."""
        self.asked.append(("start", role))
        assert role in self.prepared
        needs = self.roles[role].after
        assert {*needs} <= self.was_ready | self.ended_well, f"{role} starts too early"
        self.prepared.discard(role)
        self.running.add(role)

    def check_ready(self, role: str) -> None:
        """Find out when a role is ready: at once, or as a test tells."""
        self.asked.append(("check_ready", role))
        if self.roles[role].ready.kind == "started":
            self.ready(role)

    def stop(self, role: str, number: int, *, kill: bool = False) -> None:
        """Note that the workers of a role are to be stopped."""
        self.asked.append(("stop", role, number, kill))
        assert role in self.prepared | self.running
        self.stops.append((role, number, kill))

    def finish(self, code: int) -> None:
        """Note the exit code of the job."""
        self.asked.append(("finish", code))
        assert not self.prepared | self.running
        self.ends.append(code)

    def log(self, text: str, level: str = "info") -> None:
        """Keep a line for the user, but for debugging."""
        if level != "debug":
            self._lines.append(text)

    def said(self) -> list[str]:
        """Return the lines for the user so far."""
        return self._lines

    def stopped(self) -> list[str]:
        """Return which roles were to be stopped, in order."""
        return [name for name, _, _ in self.stops]
