"""The state of a node's session: an event and what is seen of it in, what is to be done out.

It serves one run after another until the runner ends it or is lost, a signal ends this node's part,
or the guard dies. Nothing here sends, stops or waits: `Session` does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.errors import LOST
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any


class Phase(Enum):
    """The phase of a session.

    Attributes:
        SERVING: it serves one run after another.
        LEAVING: it waits for the end of the active run; no other run follows.
        DISMISSED: the same, but the runner has ended it: the run is killed.
        CLEARING: it waits for the end of what it has started beside its runs, and of what is sent.
        OVER: the process ends.
    """

    SERVING = 1
    LEAVING = 2
    DISMISSED = 3
    CLEARING = 4
    OVER = 5


class SessionFacts(NamedTuple):
    """What is seen of a session when something happens.

    Attributes:
        active: whether processes of a run may be running.
        ended: whether the newest run has ended, and none is being checked.
        grace: seconds that the run's workers have by its job.
        by_engine: whether an engine has started this node.
        held: whether the newest run is one of a held node.
        background: whether processes that it has left running may stay.
        stuck: its children that wait for a disk.
        open: whether the runner can be told anything.
        unsent: bytes that wait for the runner to read.
        services: whether there is a command or a lane.
    """

    active: bool
    ended: bool
    grace: float
    by_engine: bool
    held: bool
    background: bool
    stuck: Collection[int]
    open: bool
    unsent: int
    services: bool


# -- events ---------------------------------------------------------------------------------------


class Lost(NamedTuple):
    """The runner is lost, for this reason."""

    reason: str


class Ended(NamedTuple):
    """The runner has ended the session; `code` is for this process, None for its own."""

    code: int | None


class EndSignal(NamedTuple):
    """A scheduler's signal ends this node's part; with `delivered`, the workers have got it."""

    number: int
    delivered: bool


class Heard(NamedTuple):
    """A scheduler's signal that ends this node's part has come; `EndSignal` follows."""

    number: int


class GuardDied(NamedTuple):
    """Without the guard, the death of this process would leave orphans."""


class RunEnded(NamedTuple):
    """The run has ended."""


class Cleared(NamedTuple):
    """Commands and lanes have ended, or all was sent that waited."""


# -- effects --------------------------------------------------------------------------------------


class Note(NamedTuple):
    """Tell the runner why this node leaves, and by which signal."""

    reason: str
    number: int


class StopRun(NamedTuple):
    """Stop the workers; the rest is as in `run_events.Stopped`."""

    number: int
    grace: float
    reason: str = ""
    delivered: bool = False


class Abandon(NamedTuple):
    """Stop the workers, and discard their output."""

    reason: str


class CloseServices(NamedTuple):
    """End commands and lanes; `Cleared` follows."""


class Clear(NamedTuple):
    """End the checks of a JOB, and requests about this machine."""


class LetStay(NamedTuple):
    """Have the guard let stay what the run has left running."""


class Spare(NamedTuple):
    """Have the guard leave alone these, and what earlier runs have left."""

    pids: Collection[int]


class TellLeft(NamedTuple):
    """Print what could not be ended: the runner cannot be told."""


class Exit(NamedTuple):
    """End this process."""


class SessionState:
    """A session, from its line to its end.

    Attributes:
        phase: its phase.
        code: the exit code for this process.
    """

    def __init__(self) -> None:
        """Begin without a run."""
        self.phase = Phase.SERVING
        self.code = 0
        self._told = 0
        self._done: list[Any] = []
        self._handlers: dict[type, Callable[[Any, SessionFacts], None]] = {
            Lost: self._on_lost,
            Ended: self._on_ended,
            Heard: self._on_heard,
            EndSignal: self._on_end_signal,
            GuardDied: self._on_guard_died,
            RunEnded: self._on_run_ended,
            Cleared: self._on_cleared,
        }

    @property
    def leaves(self) -> bool:
        """Whether nothing more is started."""
        return self.phase in {Phase.CLEARING, Phase.OVER}

    def step(self, event: object, seen: SessionFacts) -> list[Any]:
        """Handle an event; return what is to be done, in this order."""
        if self.phase is not Phase.DISMISSED or type(event) is RunEnded:
            self._handlers[type(event)](event, seen)
        done, self._done = self._done, []
        return done

    def _on_lost(self, lost: Lost, seen: SessionFacts) -> None:
        """Leave without the runner."""
        if seen.services:
            self._done.append(CloseServices())
        if self.phase is Phase.CLEARING:
            self._end(seen)
            return
        if not seen.ended:
            self.code = LOST
        if seen.active:
            self.phase = Phase.LEAVING
            self._done.append(Abandon(f"lost contact with the runner: {lost.reason}"))
        else:
            self._end(seen)

    def _on_ended(self, ended: Ended, seen: SessionFacts) -> None:
        """Leave; what still runs is killed, which the guard does only if it lives."""
        if ended.code is not None:
            self.code = ended.code
        if seen.active:
            self.phase = Phase.DISMISSED
            self._done.append(StopRun(signal.SIGKILL, 0.0))
        else:
            self._end(seen)

    def _on_heard(self, heard: Heard, seen: SessionFacts) -> None:
        """Tell of a signal before the ends of workers that it explains."""
        if seen.active and not self._told:
            self._told = heard.number
            self._done.append(Note(_reason(heard.number), heard.number))

    def _on_end_signal(self, got: EndSignal, seen: SessionFacts) -> None:
        stop = StopRun(got.number, seen.grace, delivered=got.delivered)
        self._leave(_reason(got.number), got.number, stop, seen)

    def _on_guard_died(self, _event: GuardDied, seen: SessionFacts) -> None:
        """Leave at once.

        An engine that ends kills the guards of all nodes, as it knows no other processes. Then
        nothing is wrong here, and the workers have their grace period.
        """
        self.code, reason = LOST, "its guard was killed"
        stop = StopRun(signal.SIGTERM, seen.grace if seen.by_engine else 0, reason)
        self._leave(reason, signal.SIGKILL, stop, seen)

    def _leave(self, reason: str, number: int, stop: StopRun, seen: SessionFacts) -> None:
        """Serve no other run; stop the one that is active, or end the session now."""
        if (seen.active or seen.ended) and number != self._told:
            self._done.append(Note(reason, number))
        if seen.active:
            self.phase = Phase.LEAVING
            self._done.append(stop)
        else:
            self._end(seen)

    def _on_run_ended(self, _event: RunEnded, seen: SessionFacts) -> None:
        if seen.background:
            self._done.append(LetStay())
        elif seen.stuck:
            self._done.append(Spare(seen.stuck))
        if not seen.open:
            self._done.append(TellLeft())
            self._end(seen)
        elif self.phase is Phase.DISMISSED:
            self._end(seen)
        elif self.phase is Phase.LEAVING and seen.held:
            self._end(seen)  # the runner keeps the line, for runs that this session cannot serve

    def _on_cleared(self, _event: Cleared, seen: SessionFacts) -> None:
        if self.phase is Phase.CLEARING:
            self._end(seen)

    def _end(self, seen: SessionFacts) -> None:
        """End the session, as soon as nothing runs beside its runs, and all is sent."""
        self._done.append(Clear())
        self.phase = Phase.CLEARING
        if seen.services:
            self._done.append(CloseServices())
        elif not seen.unsent:
            self.phase = Phase.OVER
            self._done.append(Exit())


def _reason(number: int) -> str:
    return f"the node launcher got {signal.Signals(number).name}"
