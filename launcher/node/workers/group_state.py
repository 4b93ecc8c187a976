"""The state of a group of workers: decides the reaction to each event.

Workers are stopped in steps: the signal to all workers at once, one grace period for all, SIGKILL,
and then the end of their leftovers. Nothing here signals, looks or waits: `GroupActions` does.
"""

from __future__ import annotations

import signal
from enum import Enum
from functools import partial, wraps

from ...common.records import NamedTuple
from ..machine import descendants
from . import self_ending

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
    """The rules for a stop of this job's workers.

    Attributes:
        group: signal a worker's whole process group, not only its leader. The leader is the
            default: data loaders would die of a signal that only the training loop can handle. A
            program other than Python often is a shell, which does not pass signals on.
        allow_background: processes that a successful job leaves running may stay.
    """

    group: bool = False
    allow_background: bool = False


class GroupPhase(Enum):
    """The phase of a group; phases only advance.

    Attributes:
        RUNNING: workers run, or have been told to stop.
        SWEEPING: all workers have ended, and their leftovers have received SIGTERM.
        KILLING: all remaining processes get SIGKILL.
        ENDED: no process is left that can be ended; logs may still be written.
    """

    RUNNING = 1
    SWEEPING = 2
    KILLING = 3
    ENDED = 4


class GroupSnapshot(NamedTuple):
    """The facts around a group at an event.

    Attributes:
        time: seconds on the loop's clock.
        children: the group's share of this process's children, if `GroupState.looks`.
        helpers: children that end by themselves, if `GroupState.sweeps`.
        writes: whether workers may still produce output.
        stalled: whether output is not being read for now.
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

            If that is not permitted, `GroupState.is_foreign` and `changed` follow.
            """

        def kill(self, pids: Collection[int], *, below: bool) -> None:
            """Kill these children.

            With `below`, first kill all processes below this one; `GroupState.were_killed` follows.
            """

        def tell_left(self, pids: Sequence[int]) -> None:
            """Report the processes that a successful job leaves running."""

        def finish(self, left: Sequence[int]) -> None:
            """End the group; `left` are the processes that remain."""


def _event(
    handle: Callable[Concatenate[GroupState, GroupSnapshot, P], None],
) -> Callable[Concatenate[GroupState, GroupSnapshot, P], None]:
    """Return a method that also does due steps, and ends the group if nothing is left.

    Callers record exits in `GroupState.processes` before the event.
    """

    @wraps(handle)
    def event(state: GroupState, now: GroupSnapshot, /, *args: P.args, **kwargs: P.kwargs) -> None:
        state.advance(now, partial(handle, state, now, *args, **kwargs))

    return event


class GroupState:
    """A group of workers, from their start to the end of their leftovers.

    Attributes:
        processes: the workers, with wait status once they have ended.
    """

    def __init__(self, policy: StopPolicy, processes: Sequence[Process], do: GroupActions) -> None:
        """Start with running workers; `processes` may grow."""
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
        """Do due steps, then `event`; end the group if no worker ran before the event."""
        if self.phase is GroupPhase.ENDED:
            return
        was_busy = self._busy
        self._on_time(now)
        event()
        if not was_busy:
            self._finish_if_idle(now)

    @property
    def due(self) -> float | None:
        """The time of the next due step; None if no step is due."""
        kill = self._kill_at if self.phase in {GroupPhase.RUNNING, GroupPhase.SWEEPING} else None
        times = [time for time in (kill, self._give_up_at, self._drain_until) if time is not None]
        return min(times) if times and self.phase is not GroupPhase.ENDED else None

    def looks(self, now: float) -> bool:
        """Return whether the next step needs the list of children."""
        due = self.due
        killing = self.phase is GroupPhase.KILLING or (due is not None and due <= now)
        return self.phase is not GroupPhase.ENDED and (killing or not self._busy)

    @property
    def sweeps(self) -> bool:
        """True if the next step needs to know which children are helpers."""
        return self.phase is GroupPhase.RUNNING and not self._busy

    @property
    def _busy(self) -> bool:
        """True if any running worker can be ended from here."""
        return any(one.pid not in self._foreign for one in self.running())

    def running(self) -> list[Process]:
        """Return the workers that have not ended."""
        return [one for one in self.processes if one.status is None]

    def may_stay(self) -> bool:
        """Return whether processes that the job leaves running may stay."""
        return self._policy.allow_background and self._succeeded()

    def _succeeded(self) -> bool:
        return self._stop_signal is None and all(one.status == 0 for one in self.processes)

    # -- stopping ---------------------------------------------------------------------------

    @_event
    def stop(self, _now: GroupSnapshot, number: int, *, delivered: bool) -> None:
        """Signal the workers, unless this signal was the last one sent; `kill_after` follows.

        With `delivered`, the workers have already received the signal.
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
        """Set the deadline for SIGKILL to `grace` seconds from now, unless it is earlier."""
        ends = now.time + grace
        if self._kill_at is None or ends < self._kill_at:
            self._kill_at = ends

    def _signal(self, pid: int, number: int) -> None:
        self._do.signal(pid, number, group=self._policy.group)

    def _on_time(self, now: GroupSnapshot) -> None:
        due = self.due
        if due is None or due > now.time:
            return
        if self._drain_until is not None and self._drain_until <= now.time:
            self._stop_draining(now)
        elif self.phase is GroupPhase.KILLING:
            self._finish(now.children)
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
        """Record children that have ended."""
        self._killed.difference_update(pids)
        if self.phase is GroupPhase.KILLING:
            self._kill_children(now)

    @_event
    def were_killed(self, _now: GroupSnapshot, pids: Collection[int]) -> None:
        """Record processes that were killed with all their descendants."""
        self._killed.update(pids)

    @_event
    def is_foreign(self, _now: GroupSnapshot, pid: int) -> None:
        """Record a process that now belongs to another user, and cannot be signalled."""
        self._foreign.add(pid)

    @_event
    def changed(self, _now: GroupSnapshot) -> None:
        """Record that output has ended or resumed, or that a step is due."""

    # -- the end ----------------------------------------------------------------------------

    def _finish_if_idle(self, now: GroupSnapshot) -> None:
        """End the group if no orphan and no unread output is left."""
        left = [pid for pid in now.children if pid not in self._foreign]
        if self.phase is GroupPhase.ENDED:
            return
        if left and not self.may_stay():
            self._sweep(left, now)
        elif not now.writes:
            self._finish(sorted(self._foreign.intersection(now.children)))
        elif self._drain_until is None and not self._waits(now):
            self._drain_until = now.time + DRAIN

    def _waits(self, now: GroupSnapshot) -> bool:
        """Return whether unread output holds up the end; a stop does not wait for output."""
        return now.stalled and self._stop_signal is None

    def _stop_draining(self, now: GroupSnapshot) -> None:
        self._drain_until = None
        if not self._waits(now):
            self._finish(sorted(self._foreign))

    def _sweep(self, left: Sequence[int], now: GroupSnapshot) -> None:
        """Stop the leftovers of the workers: SIGTERM, a short pause, SIGKILL."""
        if self.phase is not GroupPhase.RUNNING:
            return
        self.phase = GroupPhase.SWEEPING
        asked = [pid for pid in left if pid not in now.helpers]
        self._tell(asked)
        for pid in asked:
            self._do.signal(pid, signal.SIGTERM)
        if not (self._policy.group and self._stop_signal is not None):
            self._kill_at = now.time + (ORPHAN_GRACE if asked else self_ending.MOMENT)

    def _tell(self, pids: Sequence[int]) -> None:
        """Report once the processes that a successful job leaves running."""
        if pids and self._succeeded() and not self._told:
            self._told = True
            self._do.tell_left(pids)

    def _finish(self, left: Sequence[int]) -> None:
        self.phase = GroupPhase.ENDED
        self._do.finish(left)
