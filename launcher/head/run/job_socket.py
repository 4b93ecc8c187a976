"""The socket at which a running job takes the requests of dsrun-job.

What serves them is imported for the first caller: most jobs have none.
"""

from __future__ import annotations

from collections import deque

from ...control import local
from ..output.tail import Tail
from .events import KEPT, RESULT, Exit, RankOutput, RanksActive, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable

    from ..local.server import LocalServer
    from .events import RunEvent
    from .run import Run


MOST_EVENTS = 20_000
"""Events that are kept, beside the output."""


class RunHistory:
    """What was seen of a run so far, for those who ask about it while it runs.

    Attributes:
        tail: the newest output.
        round: the newest round, 0 if there are none.
        restarts: how often workers were restarted after a failure.
        exits: how ranks of this round have ended: (code, whether they were being stopped).
        idle: for how many seconds ranks have done nothing, if nodes report that (RanksActive).
        followers: called with rank, host, stream and bytes of all output.
        past: the newest events, beside the output, each with its time on the clock.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Note times on this clock: the loop's."""
        self._clock = clock
        self.past: deque[tuple[float, RunEvent]] = deque(maxlen=MOST_EVENTS)
        self.tail = Tail()
        self.round = self.restarts = 0
        self.exits: dict[int, tuple[int, bool]] = {}
        self.idle: dict[int, float] = {}
        self.followers: list[Callable[[int, str, int, bytes], None]] = []

    def on_event(self, event: RunEvent) -> None:
        """Keep what an event tells; most are output."""
        if type(event) is RankOutput:
            self._on_output(event)
            return
        if type(event) in KEPT:
            self.past.append((self._clock(), event))
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
    """Listens for one run until it is closed.

    Attributes:
        seen: what was seen of the run.
    """

    def __init__(self, run: Run) -> None:
        """Observe a run, and listen; without a socket it goes on all the same."""
        self.seen = RunHistory(run.loop.clock)
        self._run = run
        self._server: LocalServer | None = None
        self._listener: socket | None = None
        run.observe(self.seen.on_event)
        try:
            self._listener = local.listener(local.JOB, run.spec.job_id)
        except OSError as error:
            run.log(f"dsrun-job cannot reach this job: {error.strerror or error}", "debug")
        else:
            run.loop.add_reader(self._listener.fileno(), self._serve)

    def _serve(self) -> None:
        """Serve the first caller, and all that follow."""
        from ..local.job_requests import JobRequests
        from ..local.server import LocalServer
        from .report_request import report

        listener, self._listener = self._listener, None
        assert listener is not None
        self._run.loop.remove(listener.fileno())
        verbs = {**JobRequests(self._run, self.seen).verbs, "report": report(self._run, self.seen)}
        self._server = LocalServer(self._run.loop, listener, verbs, self._run.log)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._listener is not None:
            self._run.loop.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None
        if self._server is not None:
            self._server.close()
