"""The state of a node's session: decides, of all that happens on the line, what follows.

It serves one run after another until the runner ends it or is lost, a signal ends this node's part,
or the guard dies. Nothing here sends, stops or waits: that is done by `SessionActions`.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.errors import LOST
from ...common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol


class SessionPhase(Enum):
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


class SessionSnapshot(NamedTuple):
    """The surroundings of a session when something happens.

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


if TYPE_CHECKING:

    class SessionActions(Protocol):
        """Carries out the decisions of a session, in the order of the calls."""

        def tell_why(self, reason: str, number: int) -> None:
            """Tell the runner why this node leaves, and by which signal."""

        def stop_run(
            self, number: int, grace: float, *, reason: str = "", delivered: bool = False
        ) -> None:
            """Stop the workers, as `NodeRun.stop` does."""

        def abandon_run(self, reason: str) -> None:
            """Stop the workers, and discard their output."""

        def close_services(self) -> None:
            """End commands and lanes; `SessionState.cleared` follows."""

        def clear(self) -> None:
            """End the checks of a JOB, and requests about this machine."""

        def let_stay(self) -> None:
            """Have the guard let stay what the run has left running."""

        def spare(self, pids: Collection[int]) -> None:
            """Have the guard leave these alone, and what earlier runs have left."""

        def tell_left(self) -> None:
            """Print what could not be stopped: the runner cannot be told."""

        def exit(self) -> None:
            """End this process."""


class SessionState:
    """A session, from its line to its end.

    Attributes:
        phase: its phase.
        code: the exit code for this process.
    """

    def __init__(self, do: SessionActions) -> None:
        """Begin without a run; `do` carries out what is decided."""
        self.phase = SessionPhase.SERVING
        self.code = 0
        self._do = do
        self._told = 0

    @property
    def leaves(self) -> bool:
        """Whether nothing more is started."""
        return self.phase in {SessionPhase.CLEARING, SessionPhase.OVER}

    def runner_lost(self, now: SessionSnapshot, reason: str) -> None:
        """Leave without the runner."""
        if self.phase is SessionPhase.DISMISSED:
            return
        if now.services:
            self._do.close_services()
        if self.phase is SessionPhase.CLEARING:
            self._end(now)
            return
        if not now.ended:
            self.code = LOST
        if now.active:
            self.phase = SessionPhase.LEAVING
            self._do.abandon_run(f"lost contact with the runner: {reason}")
        else:
            self._end(now)

    def runner_ended(self, now: SessionSnapshot, code: int | None) -> None:
        """Leave; what still runs is killed, which the guard does only if it lives.

        The runner has ended the session; `code` is the exit code for this process, None for its
        own.
        """
        if self.phase is SessionPhase.DISMISSED:
            return
        if code is not None:
            self.code = code
        if now.active:
            self.phase = SessionPhase.DISMISSED
            self._do.stop_run(signal.SIGKILL, 0.0)
        else:
            self._end(now)

    def signal_heard(self, now: SessionSnapshot, number: int) -> None:
        """Tell of a scheduler's signal before the ends of workers that it explains.

        It ends this node's part: `signal_came` follows.
        """
        if now.active and not self._told and self.phase is not SessionPhase.DISMISSED:
            self._told = number
            self._do.tell_why(_reason(number), number)

    def signal_came(self, now: SessionSnapshot, number: int, *, delivered: bool) -> None:
        """End this node's part by a scheduler's signal.

        With `delivered`, the workers have got it as well.
        """
        if self._leave(now, _reason(number), number):
            self._do.stop_run(number, now.grace, delivered=delivered)

    def guard_died(self, now: SessionSnapshot) -> None:
        """Leave at once: without the guard, the death of this process would leave orphans.

        An engine that ends kills the guards of all nodes, as it knows no other processes. Then
        nothing is wrong here, and the workers have their grace period.
        """
        if self.phase is SessionPhase.DISMISSED:
            return
        self.code, reason = LOST, "its guard was killed"
        if self._leave(now, reason, signal.SIGKILL):
            grace = now.grace if now.by_engine else 0
            self._do.stop_run(signal.SIGTERM, grace, reason=reason)

    def _leave(self, now: SessionSnapshot, reason: str, number: int) -> bool:
        """Serve no other run; return whether one is to be stopped, or end the session now."""
        if self.phase is SessionPhase.DISMISSED:
            return False
        if (now.active or now.ended) and number != self._told:
            self._do.tell_why(reason, number)
        if now.active:
            self.phase = SessionPhase.LEAVING
        else:
            self._end(now)
        return now.active

    def run_ended(self, now: SessionSnapshot) -> None:
        """Wait for another run, or end the session if none follows."""
        if now.background:
            self._do.let_stay()
        elif now.stuck:
            self._do.spare(now.stuck)
        if not now.open:
            self._do.tell_left()
            self._end(now)
        elif self.phase is SessionPhase.DISMISSED:
            self._end(now)
        elif self.phase is SessionPhase.LEAVING and now.held:
            self._end(now)  # the runner keeps the line, for runs that this session cannot serve

    def cleared(self, now: SessionSnapshot) -> None:
        """Go on with the end: commands and lanes have ended, or all was sent that waited."""
        if self.phase is SessionPhase.CLEARING:
            self._end(now)

    def _end(self, now: SessionSnapshot) -> None:
        """End the session, as soon as nothing runs beside its runs, and all is sent."""
        over = not now.services and not now.unsent
        self.phase = SessionPhase.OVER if over else SessionPhase.CLEARING
        self._do.clear()
        if now.services:
            self._do.close_services()
        elif over:
            self._do.exit()


def _reason(number: int) -> str:
    return f"the node launcher received {signal.Signals(number).name}"
