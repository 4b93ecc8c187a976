"""The state of a run on a node: an event in, what is to be done of it out.

Nothing here starts, signals, sends or waits: `NodeRun` does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ..workers.group import FailureDetails
from . import run_events as events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ...control.messages import Start


NOT_EXECUTED = 126
"""The exit code of a worker that could not be started, as in shells."""


class Phase(Enum):
    """The phase of a run; phases only go forward.

    Attributes:
        PREPARED: its checks are made; a port may be reserved for it.
        RUNNING: its workers run, or an elastic job's agent does.
        DISMISSING: its workers are gone; the agent and the preloader are being ended.
        ENDED: nothing of it is left here, and the runner has been told.
    """

    PREPARED = 1
    RUNNING = 2
    DISMISSING = 3
    ENDED = 4


class Workers(Enum):
    """The workers that were requested last.

    Attributes:
        NONE: there are none, or not any more.
        WAITING: they wait for the preloader.
        RUNNING: they were started, and something of them is left.
    """

    NONE = 1
    WAITING = 2
    RUNNING = 3


class Rounds(Enum):
    """The rounds of an elastic job.

    Attributes:
        NONE: there are none, or not any more.
        OPEN: another one may follow.
        OVER: none follows; the agent has not ended.
    """

    NONE = 1
    OPEN = 2
    OVER = 3


class RunState:
    """A run on a node, from JOB to DONE.

    Attributes:
        phase: its phase.
        looks: whether what jobs that have ended have left is still to be looked for.
        leaves_background: whether processes that it has left running may stay.
    """

    def __init__(self, *, elastic: bool, preloads: bool) -> None:
        """Begin with a run that is prepared.

        With `elastic` an agent requests its workers; with `preloads` there is a preloader.
        """
        self.phase = Phase.PREPARED
        self.leaves_background = False
        self._elastic, self._preloads = elastic, preloads
        self._workers, self._rounds = Workers.NONE, Rounds.NONE
        self.looks = False
        self._last: events.GroupEnded | None = None
        self._early: list[bytes] = []
        self._unended: list[int] = []
        self._details = FailureDetails({}, {}, {}, {})
        self._reason = ""
        self._done: list[Any] = []
        self._handlers = self._table()

    def _table(self) -> dict[type, Callable[[Any], None]]:
        """Return what handles each kind of event."""
        return {
            events.Started: self._on_started,
            events.Requested: lambda it: self._request(it.start),
            events.Preloaded: self._on_preloaded,
            events.Due: self._on_due,
            events.NotStarted: self._on_not_started,
            events.Input: self._on_input,
            events.Signalled: self._on_signalled,
            events.RoundStopped: self._on_round_stopped,
            events.Stopped: self._on_stopped,
            events.WorkerEnded: self._on_worker_ended,
            events.GroupEnded: self._on_group_ended,
            events.FailuresFound: self._on_failures,
            events.RoundsClosed: self._on_rounds_closed,
            events.PreloaderGone: lambda _it: self._report_end(),
            events.Closed: self._on_closed,
        }

    def step(self, event: object) -> list[Any]:
        """Handle an event; return what is to be done, in this order."""
        self._handlers[type(event)](event)
        done, self._done = self._done, []
        return done

    # -- workers ----------------------------------------------------------------------------

    def _on_started(self, started: events.Started) -> None:
        """Start the workers, or the agent that decides when they start."""
        self.phase, self.looks = Phase.RUNNING, started.looks
        if self._elastic:
            self._rounds = Rounds.OPEN
            self._done.append(events.BeginRounds(started.start))
        else:
            self._request(started.start)

    def _request(self, start: Start) -> None:
        if self._preloads:
            self._workers = Workers.WAITING
            self._done.append(events.Preload(start))
        else:
            self._done.append(events.Settle(start))

    def _on_preloaded(self, preloaded: events.Preloaded) -> None:
        self._workers = Workers.NONE
        self._done.append(events.Settle(preloaded.start))

    def _on_due(self, due: events.Due) -> None:
        if self.phase is Phase.RUNNING and self._rounds is not Rounds.OVER:
            self._workers = Workers.RUNNING
            self._done.append(events.StartGroup(due.start, self._early))
            self._early = []
            self._look()

    def _look(self) -> None:
        """Look for leftovers once the first workers were started."""
        if self.looks:
            self.looks = False
            self._done.append(events.LookForLeftovers())

    def _on_not_started(self, missing: events.NotStarted) -> None:
        """End those that run; the agent is told of the others as if they had failed."""
        start = missing.start
        self._done.append(events.ReportNotStarted(missing.rank, missing.reason))
        if self._rounds is not Rounds.NONE:
            ranks = range(missing.rank, start.first_rank + len(start.slots))
            self._done += [events.EndInRound(rank, NOT_EXECUTED) for rank in ranks]
        self._done.append(events.StopGroup(signal.SIGTERM, 0, delivered=False))

    def _on_input(self, given: events.Input) -> None:
        """Pass on standard input, or keep it until the workers have been started."""
        if self._workers is Workers.WAITING:
            self._early.append(given.data)
        elif self._workers is Workers.RUNNING:
            self._done.append(events.Feed(given.data))

    def _on_signalled(self, signalled: events.Signalled) -> None:
        if self.phase is Phase.RUNNING and self._workers is Workers.RUNNING:
            self._done.append(events.SignalGroup(signalled.number))

    def _on_round_stopped(self, stop: events.RoundStopped) -> None:
        """Stop the workers of a round; those that wait for the preloader are not started."""
        if self._workers is Workers.WAITING:
            self._workers = Workers.NONE
            self._done += [events.CancelPreload(), events.NoneInRound(stop.number)]
        elif self._workers is Workers.RUNNING:
            self._done.append(events.StopGroup(stop.number, stop.grace, delivered=False))

    def _on_worker_ended(self, ended: events.WorkerEnded) -> None:
        if self.phase is Phase.ENDED:
            return  # it could not be ended
        self._done.append(events.ReportExit(*ended))
        if self._rounds is not Rounds.NONE:
            self._done.append(events.EndInRound(ended.process.spec.rank, ended.code))

    # -- the end ----------------------------------------------------------------------------

    def _on_stopped(self, stop: events.Stopped) -> None:
        """Stop the workers and start no other round; a run without workers ends at once."""
        self._reason = stop.reason or self._reason
        if self.phase is Phase.PREPARED:
            self._finish()
        elif self.phase is Phase.RUNNING:
            self._stop_running(stop)

    def _stop_running(self, stop: events.Stopped) -> None:
        if self._preloads:
            self._done.append(events.CancelPreload())
        if self._rounds is not Rounds.NONE:
            self._rounds = Rounds.OVER
            self._done.append(events.StopRounds())
        if self._workers is Workers.RUNNING:
            self._done.append(events.StopGroup(stop.number, stop.grace, stop.delivered))
        else:
            self._end_workers()

    def _on_group_ended(self, ended: events.GroupEnded) -> None:
        """Continue with the next round, or with the end of the agent, or of the run."""
        if self.phase is Phase.ENDED:
            return
        self._workers, self._last = Workers.NONE, ended
        if self._rounds is Rounds.OPEN:
            self._done.append(events.EndRound())
        else:
            self._unended += ended.left
            self._end_workers()

    def _end_workers(self) -> None:
        was, last, self.phase = self.phase, self._last, Phase.DISMISSING
        self._workers = Workers.NONE
        if was is Phase.RUNNING and last is not None:
            self.leaves_background = self._rounds is Rounds.NONE and last.may_stay
            if last.failed:
                self._done.append(events.FindFailures())
                return
        self._dismiss()

    def _on_failures(self, found: events.FailuresFound) -> None:
        self._details = found.details
        self._dismiss()

    def _dismiss(self) -> None:
        """End the agent of an elastic job, if there is one, and then the run."""
        if self._rounds is Rounds.NONE:
            self._finish()
        else:
            self._done.append(events.CloseRounds())

    def _on_rounds_closed(self, _event: events.RoundsClosed) -> None:
        self._rounds, self._workers = Rounds.NONE, Workers.RUNNING
        self._done.append(events.KillAgent())

    def _finish(self) -> None:
        """End the run once the preloader is gone, unless that is kept."""
        self.phase = Phase.DISMISSING
        if self._preloads:
            self._done.append(events.EndPreloader())
        else:
            self._report_end()

    def _report_end(self) -> None:
        self.phase = Phase.ENDED
        self._done.append(events.ReportEnd(self._unended, self._details, self._reason))

    def _on_closed(self, _event: events.Closed) -> None:
        self.phase = Phase.ENDED
        self._done.append(events.Release())
