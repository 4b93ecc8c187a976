"""Decides when each role of a job starts, restarts and stops. Pure.

Events are calls of methods here, passed to `RolesPolicy.step` with their time. Calls of
`RoleActions` follow, in order, once a step is over.

A role starts once the roles that it waits for (`after`) are ready or have ended well, but not
before the nodes of all roles are ready. The work of the job is done once all roles with
`ends="wait"` have ended well, and one with `ends="job"`, if any. A failure without a restart, or a
signal, ends the job earlier. Roles are then stopped, each after those that wait for it.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.errors import NO_PROGRESS
from ...common.event_queue import Outbox
from ...common.loop import Timers
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Protocol

    from ...common.loop import Timer
    from ...specs.roles import RoleSpec

    class RoleActions(Protocol):
        """Carries out decisions about roles, given by their names."""

        def prepare(self, role: str) -> None:
            """Prepare the nodes of a role, for the first time or again."""
            ...

        def start(self, role: str) -> None:
            """Start the workers of a role, which is prepared."""
            ...

        def check_ready(self, role: str) -> None:
            """Start the readiness check of a role whose workers run."""
            ...

        def stop(self, role: str, number: int, *, kill: bool = False) -> None:
            """Stop the workers of a role with this signal, or give its nodes back if none run.

            With `kill`, the remaining workers are killed without grace.
            """
            ...

        def log(self, text: str, level: str = "info") -> None:
            """Print a message for the user."""
            ...

        def finish(self, code: int) -> None:
            """Finish the job with this exit code: all roles have ended."""
            ...


TELL_AFTER = 10.0
"""Seconds before a message names the roles that wait, and for which roles."""

LONGEST_DELAY = 30.0
"""The longest delay of a restart in seconds; the first restart has none."""


class RoleState(Enum):
    """The state of a role.

    Attributes:
        WAITING: its nodes are being prepared, or it waits for other roles.
        STARTING: its workers are being started.
        RUNNING: its workers run; the readiness check has not succeeded.
        READY: the readiness check has succeeded.
        RESTARTING: it has failed, and will be started again.
        STOPPING: its workers are being stopped, or exit because of a failure.
        ENDED: it has no workers, and will not start again.
    """

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPING = "stopping"
    ENDED = "ended"


class Cause(NamedTuple):
    """The reason for the early end of a job.

    Attributes:
        role: the role that failed, "" for a signal.
        why: the reason in words, "" if the report of the role or the signal explains it.
        number: the signal, 0 for none.
    """

    role: str = ""
    why: str = ""
    number: int = 0


class RoleCourse:
    """The progress of one role.

    Attributes:
        state: the present state.
        prepared: whether the nodes are ready for a start.
        known: whether the nodes were ready before, for any start.
        alive: whether workers may run, or nodes are being prepared.
        ran: whether workers were started.
        well: whether the role has ended well, and will not start again.
        restarts: the number of restarts after failures.
        lacks: the reason why the readiness check has not succeeded, as the end of a sentence; ""
            if unknown.
        code: the last exit code; None before the first end.
    """

    def __init__(self, role: RoleSpec) -> None:
        self.role = role
        self.state = RoleState.WAITING
        self.prepared = self.known = self.alive = self.ran = self.well = False
        self.restarts, self.lacks = 0, ""
        self.code: int | None = None
        self.limit: Timer | None = None

    @property
    def name(self) -> str:
        """The name of the role."""
        return self.role.name

    @property
    def satisfied(self) -> bool:
        """True if roles that wait for this one may start."""
        return self.state is RoleState.READY or self.well

    def enter(self, state: RoleState) -> None:
        """Change the state; cancel the time limit of the former state."""
        self.state = state
        if self.limit is not None:
            self.limit.cancel()
            self.limit = None


class RolesPolicy:
    """The policy for the roles of one job.

    Attributes:
        courses: the progress of each role, by name.
        cause: the reason for an early end of the job; None without one.
        ending: whether the roles are being stopped because the job ends.
        over: whether all roles have ended.
    """

    def __init__(self, roles: Sequence[RoleSpec], now: float, act: RoleActions) -> None:
        """Start with all roles waiting, at this time in seconds."""
        self.courses = {role.name: RoleCourse(role) for role in roles}
        self._dependants_first = sorted(
            self.courses.values(), key=lambda one: -len(self._needs(one))
        )
        self.cause: Cause | None = None
        self.ending = self.over = False
        self._now = now
        self._timers = Timers(lambda: self._now)
        self._act, self._outbox = act, Outbox()
        self._do = self._outbox.do
        self._stop_signal = int(signal.SIGTERM)

    def step(self, now: float, happened: Callable[[], object]) -> None:
        """Handle an event at this time, and expired timers; then carry out the decisions."""
        self._now = now
        happened()
        while (call := self._timers.expired(now)) is not None:
            call()
        self._outbox.empty()

    def time_passed(self) -> None:
        """Handle no event, only expired timers."""

    @property
    def due(self) -> float | None:
        """The time of the next step if nothing happens before; None for no such step."""
        return None if self.over else self._timers.due

    # -- the start --------------------------------------------------------------------------

    def job_started(self) -> None:
        """Prepare the nodes of all roles."""
        for course in self.courses.values():
            self._prepare(course)
        self._timers.call_later(TELL_AFTER, self._tell_waits)

    def _prepare(self, course: RoleCourse) -> None:
        course.enter(RoleState.WAITING)
        course.alive, course.prepared, course.lacks = True, False, ""
        self._do(self._act.prepare, course.name)

    def role_prepared(self, name: str) -> None:
        """Handle the readiness of all nodes of a role to start workers."""
        course = self.courses[name]
        if course.state is RoleState.WAITING:
            course.prepared = course.known = True
            self._start_waiting()

    def _start_waiting(self) -> None:
        """Start each prepared role that waits for no other, once all were prepared before."""
        if self.ending or not all(course.known for course in self.courses.values()):
            return
        for course in self.courses.values():
            waits = course.state is RoleState.WAITING
            if waits and course.prepared and not self._blockers(course):
                course.enter(RoleState.STARTING)
                course.ran = True
                self._do(self._act.start, course.name)

    def _blockers(self, course: RoleCourse) -> list[RoleCourse]:
        return [one for name in course.role.after if not (one := self.courses[name]).satisfied]

    def _tell_waits(self) -> None:
        waiting = [one for one in self.courses.values() if one.state is RoleState.WAITING]
        lines = [
            f"{one.name} waits for {_listed(by)}" for one in waiting if (by := self._blockers(one))
        ]
        if lines and not self.ending:
            self._say("; ".join(lines))

    def role_started(self, name: str) -> None:
        """Handle the start of all workers of a role."""
        course = self.courses[name]
        if course.state is not RoleState.STARTING:
            return
        course.enter(RoleState.RUNNING)
        timeout = course.role.ready.timeout
        course.limit = self._timers.call_later(timeout, lambda: self._on_late(course))
        self._do(self._act.check_ready, name)

    def role_lacks(self, name: str, why: str) -> None:
        """Record in words why the readiness check of a role has not succeeded so far."""
        self.courses[name].lacks = f": {why}"

    def role_ready(self, name: str) -> None:
        """Handle the success of the readiness check of a role."""
        course = self.courses[name]
        if course.state is not RoleState.RUNNING:
            return
        course.enter(RoleState.READY)
        told = course.role.ready.kind != "started"
        self._say(f"{name} is ready", "info" if told else "debug")
        self._start_waiting()

    # -- failures ---------------------------------------------------------------------------

    def _on_late(self, course: RoleCourse) -> None:
        if self.ending:
            return
        limit = course.role.ready.timeout
        why = f"it was not ready after {limit:g} s (ready_timeout){course.lacks}"
        self._fail(course, why, stop=True)

    def role_failing(self, name: str, loss: str = "") -> None:
        """Handle the failure of a role whose workers are being stopped; `role_ended` follows.

        `loss` is the loss of the node that caused the failure, in words; "" for other causes.
        """
        course = self.courses[name]
        if course.state not in {RoleState.RESTARTING, RoleState.STOPPING, RoleState.ENDED}:
            self._fail(course, "", loss=loss)

    def _fail(self, course: RoleCourse, why: str, *, loss: str = "", stop: bool = False) -> None:
        """Restart a failed role, or end the job; `stop` if the workers of the role still run."""
        if not self._may_restart(course):
            course.enter(RoleState.STOPPING if course.alive else RoleState.ENDED)
            if not self.ending:
                self.cause = Cause(course.name, why)
            if stop:
                self._do(self._act.stop, course.name, signal.SIGTERM)
            self._finish()
            return
        course.restarts += 1
        course.enter(RoleState.RESTARTING)
        delay, role = _delay(course.restarts), course.role
        number = f"restart {course.restarts} of {role.max_restarts}"
        soon = f" in {delay:g} s" if delay else ""
        self._say(
            f"{course.name}: {why or loss or 'it has failed'}; starting it again{soon} ({number})",
            "warning",
        )
        if stop:
            self._do(self._act.stop, course.name, signal.SIGTERM)
        elif not course.alive:
            self._restart_later(course)

    def _may_restart(self, course: RoleCourse) -> bool:
        """Return whether a role may be restarted; one whose workers never started may not."""
        wanted = course.role.on_failure == "restart" and course.ran and not self.ending
        return wanted and course.restarts < course.role.max_restarts

    def _restart_later(self, course: RoleCourse) -> None:
        """Restart a role after a delay, which grows with each failure."""
        delay = _delay(course.restarts) if course.restarts else 0.0
        if not delay:
            self._prepare(course)
            return
        course.limit = self._timers.call_later(delay, lambda: self._prepare(course))

    def restart_requested(self, name: str) -> None:
        """Restart a role at the request of a user."""
        course = self.courses[name]
        running = {RoleState.STARTING, RoleState.RUNNING, RoleState.READY}
        if course.state in running and not self.ending:
            course.enter(RoleState.RESTARTING)
            self._do(self._act.stop, name, signal.SIGTERM)

    def role_ended(self, name: str, code: int, loss: str = "", *, moves: bool = False) -> None:
        """Handle the end of a role: none of its workers runs.

        Args:
            name: the name of the role.
            code: the exit code of the role.
            loss: the loss of a node that caused the end, as for `role_failing`.
            moves: whether another node would replace a lost one if the role was prepared again.
        """
        course = self.courses[name]
        course.alive, course.code = False, code
        match course.state:
            case RoleState.ENDED:
                return
            case RoleState.WAITING | RoleState.STARTING if code and moves and _restarts(course):
                self._prepare(course)  # nothing has failed: a node was lost before the start
            case RoleState.RESTARTING:
                self._restart_later(course)
            case RoleState.STOPPING:
                course.enter(RoleState.ENDED)
            case _ if code:
                self._fail(course, "", loss=loss)
            case _ if course.role.ends == "never":
                course.code = NO_PROGRESS
                self._fail(course, 'it has ended with code 0 while others ran (ends = "never")')
            case _:
                course.enter(RoleState.ENDED)
                course.well = True
                self._start_waiting()
        self._advance()

    # -- the end ----------------------------------------------------------------------------

    def _advance(self) -> None:
        """End the job if its work is done; continue the end if the job is ending."""
        if self._done or self.ending:
            self._finish()

    @property
    def _done(self) -> bool:
        by_end: dict[str, list[bool]] = {}
        for course in self.courses.values():
            by_end.setdefault(course.role.ends, []).append(course.well)
        return any(by_end.get("job", [True])) and all(by_end.get("wait", ()))

    def interrupted(self, number: int, why: str = "") -> None:
        """End the job because of a signal; pass the signal to roles that are being stopped.

        `why` is the reason to report if nobody sent the signal.
        """
        # Programs ignore SIGPIPE, or do not expect it.
        self._stop_signal = signal.SIGTERM if number == signal.SIGPIPE else number
        if self.ending:
            for course in self._stopping():
                self._do(self._act.stop, course.name, self._stop_signal)
            return
        self.cause = Cause(number=number, why=why)
        self._finish()

    def killed(self, number: int) -> None:
        """Kill all workers at once; without an earlier reason, this signal ended the job."""
        self._stop_signal = number
        if not self.ending:
            self.ending, self.cause = True, Cause(number=number)
        for course in self.courses.values():
            if course.state is not RoleState.ENDED:
                self._stop(course, kill=True)
        self._finish_if_over()

    def _stopping(self) -> Iterator[RoleCourse]:
        return (one for one in self.courses.values() if one.state is RoleState.STOPPING)

    def _finish(self) -> None:
        """Stop each role that no other role still needs; `role_ended` stops the others later."""
        self.ending = True
        for course in self._dependants_first:
            stopped = course.state in {RoleState.STOPPING, RoleState.ENDED}
            if not stopped and not self._is_used(course):
                self._stop(course)
        self._finish_if_over()

    def _stop(self, course: RoleCourse, *, kill: bool = False) -> None:
        course.enter(RoleState.STOPPING if course.alive else RoleState.ENDED)
        if course.alive:
            self._do(self._act.stop, course.name, self._stop_signal, kill=kill)

    def _is_used(self, course: RoleCourse) -> bool:
        """Return whether another role, which has not ended, needs this one, even indirectly."""
        return any(
            one.state is not RoleState.ENDED and course.name in self._needs(one)
            for one in self.courses.values()
        )

    def _needs(self, course: RoleCourse) -> set[str]:
        """Return the names of all roles that must start before a role, even indirectly."""
        needed: set[str] = set()
        wanted = [*course.role.after]
        while wanted:
            name = wanted.pop()
            if name not in needed:
                needed.add(name)
                wanted += self.courses[name].role.after
        return needed

    def _finish_if_over(self) -> None:
        """Finish the job, once, when all roles have ended."""
        states = {course.state for course in self.courses.values()}
        if self.over or states != {RoleState.ENDED}:
            return
        self.over = True
        self._do(self._act.finish, self._code)

    @property
    def _code(self) -> int:
        """The exit code of the first failure or of the signal, else 0."""
        if self.cause is None:
            return 0
        if self.cause.role:
            return self.courses[self.cause.role].code or NO_PROGRESS
        ran = [course.code for course in self.courses.values() if course.ran and not course.well]
        return 128 + self.cause.number if any(ran) or not ran else 0

    def _say(self, text: str, level: str = "info") -> None:
        self._do(self._act.log, text, level)


def _restarts(course: RoleCourse) -> bool:
    """Return whether a role restarts after failures, and its nodes were ready before."""
    return course.known and course.role.on_failure == "restart"


def _delay(restarts: int) -> float:
    """Return the seconds before a restart: none before the first, later twice as many each time."""
    return min(LONGEST_DELAY, 2.0 ** (restarts - 2)) if restarts > 1 else 0.0


def _listed(courses: Sequence[RoleCourse]) -> str:
    return ", ".join(f"{one.name} ({one.state.value})" for one in courses)
