"""Runs the programs of a job of several roles: passes their events to the policy."""

from __future__ import annotations

import signal
from functools import partial

from ...common.errors import UsageError
from ...common.event_queue import EventQueue
from ...common.loop import DueTimer
from ...head.job.ending import ending_of
from ...head.run import run_signals, run_start
from ...head.run.events import JobEnded, Lost, Round
from ...head.run.run_signals import StopRequests, StopStep
from ...head.run.run_state import RunState
from ..jobs.runner_socket import RunHistory
from .runner_effects import RoleEffects
from .runner_ending import RolesEnding, Section
from .runner_policy import RolesPolicy
from .runner_run import RoleNews

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import ParamSpec

    from ...common.errors import DsrunError
    from ...head.fleet.fleet import NodeFleet
    from ...head.output.screen import Screen
    from ...head.report.ending import Ending
    from ...head.run.events import RunEvent
    from ...head.run.run_view import ObservedRun, RunView
    from ...specs.roles import RolesSpec
    from ..hooks.runner import JobHooks
    from ..jobs.runner_server import Message
    from ..jobs.runner_socket import FindRun, RunAccess
    from .runner_policy import Cause
    from .runner_run import RoleRun

    P = ParamSpec("P")


class RolesJob:
    """The roles of one job on a fleet (`Programs`).

    Attributes:
        refusal: None, as the ending includes the reason for a refusal.
        policy: decides when each role starts, restarts and stops.
        effects: carries out the decisions.
        roles: the runs of each role, by name.
        histories: the history of the last run of each role, by name.
        began: the start of the job, on the loop's clock.
        abandoned: whether a third interrupt ended the job without waiting for its nodes.
    """

    refusal: DsrunError | None = None

    def __init__(
        self, spec: RolesSpec, fleet: NodeFleet, console: Screen, on_over: Callable[[], None]
    ) -> None:
        """Prepare the roles; call `on_over` from the loop once all have ended."""
        self.spec, self.fleet, self.loop = spec, fleet, fleet.loop
        self.end_signals = spec.job.supervision.end_signals
        self._console, self._on_over = console, on_over
        self.began = self.loop.clock()
        self._queue = EventQueue()
        later = self._queue.later
        news = RoleNews(
            prepared=later(self._on_prepared),
            started=later(self._on_started),
            ready=later(self._on_ready),
            lacks=later(self._on_lack),
            failing=later(self._on_failing),
            ended=later(self._on_ended),
        )
        watched = self._observe, self._finish_soon, self._cause
        self.effects = RoleEffects(spec, fleet, console, news, *watched)
        self.roles = self.effects.roles
        self.policy = RolesPolicy(spec.roles, self.loop.awake(), self.effects)
        self.histories = {role.name: RunHistory(self.loop.clock) for role in spec.roles}
        self._observers: list[Callable[[ObservedRun], None]] = []
        self._hooks = self._reports()
        self.abandoned = self._over = False
        self._ending: RolesEnding | None = None
        self._requests = StopRequests()
        expire = partial(self.handle, self.policy.time_passed)
        self._alarm = DueTimer(self.loop, self.loop.awake, expire)

    def _observe(self, run: ObservedRun) -> None:
        name = run.role
        self.effects.watch_output(run)
        self.histories[name] = RunHistory(self.loop.clock, self.histories[name])
        run.observe(self.histories[name].on_event)
        for observe in self._observers:
            observe(run)
        run.observe(partial(self._on_run_event, run))

    def _on_run_event(self, run: ObservedRun, event: RunEvent) -> None:
        if type(event) in {Lost, Round} and run.view().started:
            self.effects.update(run.role)

    def _reports(self) -> JobHooks | None:
        """Return the reports to other programs; None without any."""
        job = self.spec.job
        if not job.hooks.on_event and not job.hooks.metrics_file:
            return None
        from ..hooks.runner import JobHooks

        def states() -> dict[str, tuple[str, int]]:
            courses = self.policy.courses.items()
            return {name: (one.state.value, one.restarts) for name, one in courses}

        queries, began = self.fleet.node_queries, self.began
        hooks = JobHooks(job, self.loop, self.log, queries, lambda: began, states)
        self.observe_runs(hooks.observe)
        return hooks

    def observe_runs(self, observe: Callable[[ObservedRun], None]) -> None:
        """Call a function with each run of a role before the run begins."""
        self._observers.append(observe)

    def tell_end(self, ending: Ending) -> list[Callable[[], None]]:
        """Report the end to other programs; return functions that wait in a thread for them."""
        if self._hooks is None:
            return []
        self._hooks.on_event(JobEnded(ending))
        return [self._hooks.close]

    def start(self, listen: Callable[[], None] = lambda: None) -> None:
        """Log the notes of planning about roles, and prepare the nodes; call `listen`."""
        noted = dict[str, list[str]]()
        for role in self.spec.roles:
            for note in role.job.origin.notes:
                noted.setdefault(note, []).append(role.name)
        for note, names in noted.items():
            if note not in self.spec.job.origin.notes:
                self.log(f"{', '.join(names)}: {note}")
        self.fleet.watch()  # so that ready nodes keep hearing of this process
        listen()
        self.handle(self.policy.job_started)

    def wait(self) -> None:
        """Run the loop until all roles have ended."""
        self.loop.run()

    def release_nodes(self) -> tuple[()]:
        """Return no nodes: each role has given its nodes back at its end."""
        return ()

    def requests(self) -> FindRun:
        """Return the search for the run of the role that a request names."""
        return self._access

    def _access(self, request: Message) -> RunAccess:
        role, _ = self.role_of(request)
        return role.access(self.histories[role.name])

    def role_of(self, request: Message) -> tuple[RoleRun, RunView]:
        """Return the role that a request names, and a snapshot of the run of the role.

        Raises:
            UsageError: the request names no role, or one that does not exist or has not started.
        """
        name, known = request.get("role"), self.roles
        if name is None:
            raise UsageError(f"--role NAME: expected one of {', '.join(known)}")
        if not isinstance(name, str) or name not in known:
            raise UsageError(f"no role {str(name)[:40]}; its roles are {', '.join(known)}")
        run = known[name].view
        if run is None:
            raise UsageError(f"{name} has not started")
        return known[name], run

    def log(self, text: str, level: str = "info") -> None:
        """Print a message for the user."""
        self._console.log(text, level)

    @property
    def started(self) -> bool:
        """True if workers of any role run, or have run."""
        return any(course.ran for course in self.policy.courses.values())

    @property
    def ending(self) -> bool:
        """True if the roles are being stopped."""
        return self.policy.ending

    def call_off(self, reason: str) -> None:
        """Cancel the start for this reason; if workers run already, only warn."""
        first = next(iter(self.roles.values()))
        if self.started or first.view is None:
            self.log(reason, "warning")
        else:
            first.handle(run_start.call_off, reason)

    def fail(self, error: DsrunError) -> None:
        """End the job with this error; if workers run already, only log the error."""
        first = next(iter(self.roles.values()))
        if self.started or first.view is None:
            self.log(str(error), "error")
        else:
            first.handle(RunState.fail, error)

    def make_ending(self) -> RolesEnding:
        """Return the ending, which is made once."""
        if self._ending is None:
            self._ending = self._ended({name: role.ending for name, role in self.roles.items()})
        return self._ending

    def so_far(self) -> RolesEnding:
        """Return the ending so far, while the job runs."""
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
        times, code = (self.began, self.loop.clock()), self.effects.code
        return RolesEnding(self.spec.job.job_id, sections, self.policy.cause, code, times)

    # -- events -----------------------------------------------------------------------------

    def handle(self, happened: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Pass an event, a method of the policy, to the policy after the events in the queue."""
        self._queue.put(self._step, partial(happened, *args, **kwargs))

    def _step(self, happened: Callable[[], object]) -> None:
        self.policy.step(self.loop.awake(), happened)
        self._alarm.set(self.policy.due)
        self._finish_soon()

    def _on_prepared(self, name: str) -> None:
        self.effects.update(name)
        self._step(partial(self.policy.role_prepared, name))

    def _on_started(self, name: str) -> None:
        self._step(partial(self.policy.role_started, name))

    def _on_ready(self, name: str) -> None:
        self.effects.publish()
        self._step(partial(self.policy.role_ready, name))

    def _on_lack(self, name: str, why: str) -> None:
        self._step(partial(self.policy.role_lacks, name, why))

    def _on_failing(self, name: str) -> None:
        self.effects.failed(name)
        self._step(partial(self.policy.role_failing, name, self.roles[name].loss))

    def _on_ended(self, name: str, code: int) -> None:
        self.effects.failed(name)
        loss, moves = self.roles[name].loss, self.effects.moves(name)
        self._step(partial(self.policy.role_ended, name, code, loss, moves=moves))

    def _cause(self) -> Cause | None:
        return self.policy.cause

    def _finish_soon(self) -> None:
        """Finish, after the events in the queue, if the job is over and all hooks are done."""
        self._queue.put(self._finish_if_over)

    def _finish_if_over(self) -> None:
        leaving = any(role.leaving for role in self.roles.values())
        if self.policy.over and not leaving and not self._over:
            self._over = True
            self._on_over()

    # -- signals ----------------------------------------------------------------------------

    def on_end_signal(self, number: int, why: str = "") -> None:
        """Handle a signal that ends the job: the first stops, the second kills, the third exits.

        `why` is the reason to report if nobody sent the signal.
        """
        match self._requests.next(number):
            case StopStep.LEAVE:
                self._abandon()
            case StopStep.KILL:
                self.log("killing all ranks now", "warning")
                self.handle(self.policy.killed, number)
            case StopStep.STOP:
                self._tell_stop(number, why or signal.Signals(number).name)
                self.handle(self.policy.interrupted, number, why)

    def _tell_stop(self, number: int, why: str) -> None:
        more = "; interrupt again to kill them now" if number == signal.SIGINT else ""
        self.log(f"{why}: stopping all roles, dependants first{more}", "warning")

    def _abandon(self) -> None:
        """Stop waiting for workers that still run."""
        if self.abandoned:
            return
        self.abandoned = True
        left = {name for one in self.roles.values() for name in one.unfinished}
        names = ", ".join(sorted(left)) or "none"
        self.log(f"exiting now; may still be running on: {names}", "error")
        for role in self.roles.values():
            role.abandon()

    def stop(self, number: int, grace: float | None) -> None:
        """Stop the roles in order by a signal; kill workers that remain after the grace.

        The grace is in seconds, for all roles together; None for the grace of each role.
        """
        self.on_end_signal(number)

        def kill() -> None:
            self.handle(self.policy.killed, number)

        if grace == 0:
            kill()
        elif grace is not None:
            self.loop.call_later(grace, kill)

    def signal_ranks(self, number: int) -> int:
        """Send a signal to the ranks of all roles; return how many run."""
        ranks = 0
        for role in self.roles.values():
            if (run := role.view) is not None and run.runs:
                ranks += len(run.workers.running)
                role.handle(run_signals.signal_ranks, number)
        return ranks

    def pass_on(self, number: int) -> None:
        """Handle a signal that does not end the job."""
        if number == signal.SIGTSTP:
            self.fleet.suspend()
            return
        for role in self.roles.values():
            role.handle(run_signals.on_other_signal, number)

    def on_broken_output(self) -> None:
        """Stop the job: nobody reads its output any longer."""
        if not self.policy.ending:
            self.handle(self.policy.interrupted, signal.SIGPIPE)
