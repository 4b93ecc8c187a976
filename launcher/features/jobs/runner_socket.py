"""The socket at which a running job takes the requests of dsrun-job.

The server is imported for the first caller, as most jobs have none.
"""

from __future__ import annotations

from collections import deque
from functools import partial

from ...common.entry import load
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...control import local
from ...head.doors import VERBS, RoleRule
from ...head.output.tail import Tail
from ...head.run.events import KEPT, RESULT, Exit, RankOutput, RanksActive, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Mapping

    from ...common.loop import Loop
    from ...head.doors import JobVerb
    from ...head.fleet.fleet import NodeFleet
    from ...head.job.control import Programs
    from ...head.report.ending import Ending
    from ...head.run.events import RunEvent
    from ...head.run.run import Handle
    from ...head.run.run_view import RunView
    from .runner_server import LocalCaller, LocalServer, Message, Verb
    from .runner_waiters import Waiters

    FindRun = Callable[[Message], "RunAccess"]

MOST_EVENTS = 20_000
"""Number of events kept, besides output."""


class RunHistory:
    """The history of a run, for requests during the run.

    Attributes:
        tail: the newest output.
        round: the newest round; 0 before the first.
        restarts: the number of restarts after a failure.
        exits: (exit code, whether the rank was being stopped) by rank of this round.
        idle: seconds without work by rank, if nodes report that (`RanksActive`).
        followers: called with rank, host, stream and bytes of all output.
        clock: the loop's clock.
        past: the newest events except output, each with its time on the clock.
    """

    def __init__(self, clock: Callable[[], float], former: RunHistory | None = None) -> None:
        """Create a history on the loop's clock; keep the followers of the former run."""
        self.clock = clock
        self.past: deque[tuple[float, RunEvent]] = deque(maxlen=MOST_EVENTS)
        self.tail = Tail()
        self.round = self.restarts = 0
        self.exits: dict[int, tuple[int, bool]] = {}
        self.idle: dict[int, float] = {}
        self.followers: list[Callable[[int, str, int, bytes], None]] = (
            former.followers if former is not None else []
        )

    def on_event(self, event: RunEvent) -> None:
        """Record an event; most are output."""
        if type(event) is RankOutput:
            self._on_output(event)
            return
        if type(event) in KEPT:
            self.past.append((self.clock(), event))
        if type(event) is Exit:
            self.exits[event.rank] = event.code, event.stopped
        elif type(event) is RanksActive:
            self.idle |= {one.rank: one.idle for one in event.activity.ranks}
        elif type(event) is Round:
            self.round, self.restarts = event.number, event.restarts
            self.exits.clear()
            self.idle.clear()

    def _on_output(self, event: RankOutput) -> None:
        if event.stream == RESULT:
            return
        self.tail.add(*event)
        for follow in tuple(self.followers):
            follow(*event)


class JobSocket:
    """Listens for one job until closed; at the end, tells waiting callers the ending."""

    def __init__(
        self,
        loop: Loop,
        job_id: str,
        verbs: Mapping[str, Verb],
        log: Callable[[str, str], None],
    ) -> None:
        """Start to listen; on failure, log that and continue without a socket.

        Args:
            loop: the loop of the job.
            job_id: its id.
            verbs: answer requests, each by its name.
            log: prints a message, given its text and level.
        """
        self._loop, self._verbs, self._log = loop, verbs, log
        self._server: LocalServer | None = None
        self._waiters: Waiters | None = None
        self._listener: socket | None = None
        try:
            self._listener = local.listener(local.JOB, job_id)
        except OSError as error:
            log(f"dsrun-job cannot reach this job: {error.strerror or error}", "debug")
        else:
            loop.add_reader(self._listener.fileno(), self._serve)

    def _serve(self) -> None:
        from .runner_server import LocalServer
        from .runner_waiters import Waiters

        listener, self._listener = self._listener, None
        assert listener is not None
        self._loop.remove(listener.fileno())
        self._waiters = Waiters()
        verbs = {**self._verbs, "wait": self._waiters.add}
        self._server = LocalServer(self._loop, listener, verbs, self._log)

    def close(self) -> None:
        """Stop listening, and close connections except those that wait for the end of the job."""
        if self._listener is not None:
            self._loop.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None
        if self._server is not None and self._waiters is not None:
            self._server.close(keep=self._waiters)

    def tell(self, ending: Ending) -> None:
        """Send the ending to waiting callers, and close their connections."""
        if self._waiters is not None:
            self._waiters.tell(ending)


class RunAccess(NamedTuple):
    """The run that a request is about: of a job of one program, or of one role.

    Attributes:
        view: returns the current state of the run.
        handle: reports an event to the run.
        log: prints a message, given its text and level.
        fleet: the fleet with the run's nodes.
        seen: the run's history.
    """

    view: Callable[[], RunView]
    handle: Handle
    log: Callable[[str, str], None]
    fleet: NodeFleet
    seen: RunHistory


def verbs_of(
    job: Programs, run_of: FindRun, table: Mapping[str, JobVerb] = VERBS
) -> dict[str, Verb]:
    """Return the verbs of a job.

    Args:
        job: its programs.
        run_of: returns access to the run of the program that a request is about.
        table: the rows of the verbs, by name.
    """
    return {name: partial(_ask, verb, job, run_of) for name, verb in table.items()}


def _ask(
    verb: JobVerb,
    job: Programs,
    run_of: FindRun,
    caller: LocalCaller,
    request: Message,
    fds: list[int],
) -> Message | None:
    names_none = request.get("role") is None
    together = verb.rule is RoleRule.ALL or (verb.rule is RoleRule.ONE_OR_ALL and names_none)
    answer: Message | None
    if together and "" not in job.roles:
        answer = load(verb.of_roles)(job, caller, request, fds)
    else:
        answer = load(verb.name)(run_of(request), caller, request, fds)
    return answer


def only_run(run: RunAccess) -> FindRun:
    """Return the search for the run of a job of one program; it refuses requests with a role."""

    def run_of(request: Message) -> RunAccess:
        if "role" in request:
            raise UsageError(f"--role {str(request['role'])[:40]}: this job has one program")
        return run

    return run_of
