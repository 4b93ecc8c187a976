"""The state of a group of workers: decides, of all that happens to them, what follows.

They are stopped in steps: the signal to all workers at once, one grace period for all, SIGKILL, and
then the end of whatever they leave behind. Nothing here signals, looks or waits: that is done by
`GroupActions`.
"""

from __future__ import annotations

import signal
from enum import Enum
from functools import partial, wraps

from ...common.values import NamedTuple
from ..machine import descendants
from . import helpers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Concatenate, ParamSpec, Protocol

    from .spawn import Process

    P = ParamSpec("P")

ORPHAN_GRACE = 0.5
"""Seconds between SIGTERM and SIGKILL for processes whose worker has ended."""

DRAIN = 1.0
"""Seconds to wait for the end of a pipe that a background process holds open."""


class StopPolicy(NamedTuple):
    """How this job's workers are stopped.

    Attributes:
        group: stop signals go to a worker's whole process group, not only to its leader. By default
            they go to the leader: its data loaders would die of a signal that only the training
            loop can handle. A program that is not Python often is a shell that does not pass
            signals on.
        allow_background: what a job leaves running after it has succeeded may stay.
    """

    group: bool = False
    allow_background: bool = False


class GroupPhase(Enum):
    """The phase of the group; phases only go forward.

    Attributes:
        RUNNING: workers run, or have been told to stop.
        SWEEPING: all have ended, and the processes that they left have got SIGTERM.
        KILLING: everything that is left gets SIGKILL.
        ENDED: nothing is left, or what is left cannot be ended; the logs may still be written.
    """

    RUNNING = 1
    SWEEPING = 2
    KILLING = 3
    ENDED = 4


class GroupSnapshot(NamedTuple):
    """The surroundings of a group when something happens.

    Attributes:
        time: seconds on the loop's clock.
        children: the group's among this process's children, if `GroupState.looks`.
        helpers: those of them that end by themselves, if `GroupState.sweeps`.
        writes: whether output of the workers may still come.
        stalled: whether that is not read for now.
    """

    time: float
    children: Sequence[int]
    helpers: Collection[int]
    writes: bool
    stalled: bool


if TYPE_CHECKING:

    class GroupActions(Protocol):
        """Carries out the decisions of a group, in the order of the calls."""

        def signal(self, pid: int, number: int, *, group: bool = False) -> None:
            """Signal a child, or its group.

            `GroupState.is_foreign` and `changed` follow if that is not allowed.
            """

        def kill(self, pids: Collection[int], *, below: bool) -> None:
            """Kill these children.

            With `below`, first all processes below this one, and `GroupState.were_killed` follows.
            """

        def tell_left(self, pids: Sequence[int]) -> None:
            """Tell which processes a job that has succeeded leaves running."""

        def end(self, left: Sequence[int]) -> None:
            """End the group, of which these are left."""


def _event(
    handle: Callable[Concatenate[GroupState, GroupSnapshot, P], None],
) -> Callable[Concatenate[GroupState, GroupSnapshot, P], None]:
    """Return a method that also does what is due, and ends the group if nothing of it is left.

    Exits are noted in the processes before.
    """

    @wraps(handle)
    def event(state: GroupState, now: GroupSnapshot, /, *args: P.args, **kwargs: P.kwargs) -> None:
        state.advance(now, partial(handle, state, now, *args, **kwargs))

    return event


class GroupState:
    """A group of workers, from their start to the end of what they leave.

    Attributes:
        phase: its phase.
        processes: the workers, with the wait status of those that have ended.
    """

    def __init__(self, policy: StopPolicy, processes: Sequence[Process], do: GroupActions) -> None:
        """Begin with workers that run; `processes` may become longer."""
        self.phase = GroupPhase.RUNNING
        self._do = do
        self.processes = processes
        self._policy = policy
        self._stop_signal: int | None = None
        self._foreign: set[int] = set()
        self._killed: set[int] = set()
        self._told = False
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._drain_until: float | None = None

    def advance(self, now: GroupSnapshot, event: Callable[[], None]) -> None:
        """Do what is due, then `event`, and end the group if nothing of it was left before."""
        if self.phase is GroupPhase.ENDED:
            return
        was_busy = self._busy
        self._on_time(now)
        event()
        if not was_busy:
            self._settle(now)

    @property
    def due(self) -> float | None:
        """When a step is due if nothing happens before; None if none is."""
        kill = self._kill_at if self.phase in {GroupPhase.RUNNING, GroupPhase.SWEEPING} else None
        times = [time for time in (kill, self._give_up_at, self._drain_until) if time is not None]
        return min(times) if times and self.phase is not GroupPhase.ENDED else None

    def looks(self, now: float) -> bool:
        """Return whether the next step needs to know the children."""
        due = self.due
        killing = self.phase is GroupPhase.KILLING or (due is not None and due <= now)
        return self.phase is not GroupPhase.ENDED and (killing or not self._busy)

    @property
    def sweeps(self) -> bool:
        """Whether the next step needs to know which of them are helpers."""
        return self.phase is GroupPhase.RUNNING and not self._busy

    @property
    def _busy(self) -> bool:
        """Whether workers run that can be ended from here."""
        return any(one.pid not in self._foreign for one in self.running())

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return [one for one in self.processes if one.status is None]

    def may_stay(self) -> bool:
        """Return whether the processes that the job has left running may stay."""
        return self._policy.allow_background and self._succeeded()

    def _succeeded(self) -> bool:
        return self._stop_signal is None and all(one.status == 0 for one in self.processes)

    # -- stopping ---------------------------------------------------------------------------

    @_event
    def stop(self, _now: GroupSnapshot, number: int, *, delivered: bool) -> None:
        """Signal the workers if the signal is another one; `kill_after` follows.

        With `delivered`, they have already got it.
        """
        if number != self._stop_signal:
            self._stop_signal = number
            for process in self.running():
                process.signalled = True
                if not delivered:
                    self._signal(process.pid, number)
                    self._signal(process.pid, signal.SIGCONT)

    @_event
    def kill_after(self, now: GroupSnapshot, grace: float) -> None:
        """Set the deadline for SIGKILL, in seconds from now; it can only come nearer."""
        ends = now.time + grace
        if self._kill_at is None or ends < self._kill_at:
            self._kill_at = ends

    def _signal(self, pid: int, number: int) -> None:
        self._do.signal(pid, number, group=self._policy.group)

    def _on_time(self, now: GroupSnapshot) -> None:
        """Do what is due."""
        due = self.due
        if due is None or due > now.time:
            return
        if self._drain_until is not None and self._drain_until <= now.time:
            self._stop_draining(now)
        elif self.phase is GroupPhase.KILLING:
            self._end(now.children)
        else:
            self._kill(now)

    def _kill(self, now: GroupSnapshot) -> None:
        if self.phase is GroupPhase.SWEEPING:
            self._tell(now.children)
        self.phase, self._give_up_at = GroupPhase.KILLING, now.time + descendants.GIVE_UP
        self._kill_children(now)

    def _kill_children(self, now: GroupSnapshot) -> None:
        children = set(now.children) - self._foreign
        if children:
            below = bool(children - self._killed)
            self._killed |= children
            self._do.kill(children, below=below)

    @_event
    def were_reaped(self, now: GroupSnapshot, pids: Collection[int]) -> None:
        """Take note of children that have ended."""
        self._killed.difference_update(pids)
        if self.phase is GroupPhase.KILLING:
            self._kill_children(now)

    @_event
    def were_killed(self, _now: GroupSnapshot, pids: Collection[int]) -> None:
        """Take note of processes that have got SIGKILL with all below them: they need no other."""
        self._killed.update(pids)

    @_event
    def is_foreign(self, _now: GroupSnapshot, pid: int) -> None:
        """Take note of a process that belongs to another user by now, and cannot be signalled."""
        self._foreign.add(pid)

    @_event
    def changed(self, _now: GroupSnapshot) -> None:
        """Take note that the output has ended or goes on, or that something is due."""

    # -- the end ----------------------------------------------------------------------------

    def _settle(self, now: GroupSnapshot) -> None:
        """End the group if there is no orphan and no unread output."""
        left = [pid for pid in now.children if pid not in self._foreign]
        if self.phase is GroupPhase.ENDED:
            return
        if left and not self.may_stay():
            self._sweep(left, now)
        elif not now.writes:
            self._end(sorted(self._foreign.intersection(now.children)))
        elif self._drain_until is None and not self._waits(now):
            self._drain_until = now.time + DRAIN

    def _waits(self, now: GroupSnapshot) -> bool:
        """Return whether output is not read for now; that counts until the job is being stopped."""
        return now.stalled and self._stop_signal is None

    def _stop_draining(self, now: GroupSnapshot) -> None:
        self._drain_until = None
        if not self._waits(now):
            self._end(sorted(self._foreign))

    def _sweep(self, left: Sequence[int], now: GroupSnapshot) -> None:
        """End what the workers left behind: SIGTERM, a short pause, SIGKILL."""
        if self.phase is not GroupPhase.RUNNING:
            return
        self.phase = GroupPhase.SWEEPING
        asked = [pid for pid in left if pid not in now.helpers]
        self._tell(asked)
        for pid in asked:
            self._do.signal(pid, signal.SIGTERM)
        if not (self._policy.group and self._stop_signal is not None):
            self._kill_at = now.time + (ORPHAN_GRACE if asked else helpers.MOMENT)

    def _tell(self, pids: Sequence[int]) -> None:
        """Tell once what a job that has succeeded leaves running."""
        if pids and self._succeeded() and not self._told:
            self._told = True
            self._do.tell_left(pids)

    def _end(self, left: Sequence[int]) -> None:
        self.phase = GroupPhase.ENDED
        self._do.end(left)
