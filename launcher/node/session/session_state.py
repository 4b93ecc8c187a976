"""The state of a node's session: decides the reaction to each event.

A session serves one run after another until the runner ends it or is lost, a signal ends this
node's part, or the guard dies. Nothing here sends, stops or waits: `SessionActions` does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.errors import LOST
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Protocol


class SessionPhase(Enum):
    """The phase of a session.

    Attributes:
        SERVING: runs are served, one after another.
        LEAVING: the active run is ending; no other run follows.
        DISMISSED: the active run is being killed, because the runner has ended the session.
        CLEARING: runs have ended; commands, lanes and unsent messages are left.
        OVER: the process ends.
    """

    SERVING = 1
    LEAVING = 2
    DISMISSED = 3
    CLEARING = 4
    OVER = 5


class SessionSnapshot(NamedTuple):
    """The facts around a session at an event.

    Attributes:
        active: whether processes of a run may be running.
        ended: whether the newest run has ended, and no other is being checked.
        grace: the grace period of the job's workers, in seconds.
        by_engine: whether an engine has started this node.
        held: whether the newest run is on a held node.
        background: whether the run's remaining processes may stay.
        stuck: children that wait for a disk.
        open: whether messages can reach the runner.
        unsent: bytes that wait for the runner to read.
        services: whether there are commands or lanes.
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

        def stop_without_runner(self, reason: str) -> None:
            """Stop the workers, and discard their output."""

        def close_services(self) -> None:
            """Close commands and lanes; `SessionState.cleared` follows."""

        def clear(self) -> None:
            """Cancel the checks of a JOB, and requests about this machine."""

        def let_stay(self) -> None:
            """Tell the guard to leave the run's remaining processes alone."""

        def spare(self, pids: Collection[int]) -> None:
            """Tell the guard to leave alone these pids, and processes that earlier runs left."""

        def tell_left(self) -> None:
            """Print the processes that could not be stopped, as the runner cannot be told."""

        def exit(self) -> None:
            """End this process."""


class SessionState:
    """A session, from its start to its end.

    Attributes:
        code: the exit code of this process.
    """

    def __init__(self, do: SessionActions) -> None:
        """Start without a run; `do` carries out decisions."""
        self.phase = SessionPhase.SERVING
        self.code = 0
        self._do = do
        self._told = 0

    @property
    def leaves(self) -> bool:
        """True if nothing more may be started."""
        return self.phase in {SessionPhase.CLEARING, SessionPhase.OVER}

    def runner_lost(self, now: SessionSnapshot, reason: str) -> None:
        """Leave, because the runner is lost."""
        if self.phase is SessionPhase.DISMISSED:
            return
        if now.services:
            self._do.close_services()
        if self.phase is SessionPhase.CLEARING:
            self._finish(now)
            return
        if not now.ended:
            self.code = LOST
        if now.active:
            self.phase = SessionPhase.LEAVING
            self._do.stop_without_runner(f"lost contact with the runner: {reason}")
        else:
            self._finish(now)

    def runner_ended(self, now: SessionSnapshot, code: int | None) -> None:
        """Kill the active run, and leave, because the runner has ended the session.

        `code` is the exit code of this process; None keeps its own.
        """
        if self.phase is SessionPhase.DISMISSED:
            return
        if code is not None:
            self.code = code
        if now.active:
            self.phase = SessionPhase.DISMISSED
            self._do.stop_run(signal.SIGKILL, 0.0)
        else:
            self._finish(now)

    def signal_heard(self, now: SessionSnapshot, number: int) -> None:
        """Report a scheduler's signal to the runner before the worker exits that it explains.

        `signal_came` follows, and ends this node's part.
        """
        if now.active and not self._told and self.phase is not SessionPhase.DISMISSED:
            self._told = number
            self._do.tell_why(_reason(number), number)

    def signal_came(self, now: SessionSnapshot, number: int, *, delivered: bool) -> None:
        """End this node's part because of a scheduler's signal.

        With `delivered`, the workers have already received it.
        """
        if self._serve_no_other(now, _reason(number), number):
            self._do.stop_run(number, now.grace, delivered=delivered)

    def guard_died(self, now: SessionSnapshot) -> None:
        """Leave at once: without the guard, the death of this process would leave orphans.

        An engine that ends kills the guards of all nodes: it knows no other processes. The workers
        then get their grace period, as nothing is wrong here.
        """
        if self.phase is SessionPhase.DISMISSED:
            return
        self.code, reason = LOST, "its guard was killed"
        if self._serve_no_other(now, reason, signal.SIGKILL):
            grace = now.grace if now.by_engine else 0
            self._do.stop_run(signal.SIGTERM, grace, reason=reason)

    def _serve_no_other(self, now: SessionSnapshot, reason: str, number: int) -> bool:
        """Accept no other run; return whether a run must be stopped, or else end the session."""
        if self.phase is SessionPhase.DISMISSED:
            return False
        if (now.active or now.ended) and number != self._told:
            self._do.tell_why(reason, number)
        if now.active:
            self.phase = SessionPhase.LEAVING
        else:
            self._finish(now)
        return now.active

    def run_ended(self, now: SessionSnapshot) -> None:
        """Wait for the next run, or end the session if none follows."""
        if now.background:
            self._do.let_stay()
        elif now.stuck:
            self._do.spare(now.stuck)
        if not now.open:
            self._do.tell_left()
            self._finish(now)
        elif self.phase is SessionPhase.DISMISSED:
            self._finish(now)
        elif self.phase is SessionPhase.LEAVING and now.held:
            self._finish(now)  # the runner keeps the line for runs that this session cannot serve

    def cleared(self, now: SessionSnapshot) -> None:
        """Continue the end: commands and lanes have ended, or all messages have been sent."""
        if self.phase is SessionPhase.CLEARING:
            self._finish(now)

    def _finish(self, now: SessionSnapshot) -> None:
        """End the session once nothing runs beside its runs, and all messages have been sent."""
        over = not now.services and not now.unsent
        self.phase = SessionPhase.OVER if over else SessionPhase.CLEARING
        self._do.clear()
        if now.services:
            self._do.close_services()
        elif over:
            self._do.exit()


def _reason(number: int) -> str:
    return f"the node launcher received {signal.Signals(number).name}"
