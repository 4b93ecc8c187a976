"""The state of a group of workers: an event and what is seen of them in, what is to be done out.

They are stopped in steps: the signal to all workers at once, one grace period for all, SIGKILL, and
then the end of whatever they leave behind. Nothing here signals, looks or waits, as `WorkerGroup`
does.
"""

from __future__ import annotations

import signal
from enum import Enum

from ...common.values import NamedTuple
from ..machine import descendants
from . import helpers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from .spawn import Process

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


class Phase(Enum):
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


class GroupFacts(NamedTuple):
    """What is seen of a group when something happens.

    Attributes:
        now: seconds on the loop's clock.
        children: the group's among this process's children, if `GroupState.looks`.
        helpers: those of them that end by themselves, if `GroupState.sweeps`.
        writes: whether output of the workers may still come.
        stalled: whether that is not read for now.
    """

    now: float
    children: Sequence[int]
    helpers: Collection[int]
    writes: bool
    stalled: bool


# -- events ---------------------------------------------------------------------------------------


class Stop(NamedTuple):
    """The workers are to be stopped; `Grace` follows once they have been signalled.

    Attributes:
        number: the signal for them.
        delivered: whether they have already got it.
    """

    number: int
    delivered: bool


class Grace(NamedTuple):
    """The workers have so many seconds from now on until SIGKILL."""

    seconds: float


class Reaped(NamedTuple):
    """Children have ended."""

    pids: Collection[int]


class Killed(NamedTuple):
    """These have got SIGKILL, with all below them, and need no other."""

    pids: Collection[int]


class Foreign(NamedTuple):
    """A process belongs to another user by now, and cannot be signalled."""

    pid: int


class Changed(NamedTuple):
    """The output has ended or goes on, or something is due."""


# -- effects --------------------------------------------------------------------------------------


class Signal(NamedTuple):
    """Signal a child, or its group; `Foreign` follows if that is not allowed."""

    pid: int
    number: int
    group: bool = False


class Kill(NamedTuple):
    """Kill these children; with `below` first all that is below, and `Killed` follows."""

    pids: Collection[int]
    below: bool


class Tell(NamedTuple):
    """Tell what a job that has succeeded leaves running."""

    pids: Sequence[int]


class End(NamedTuple):
    """End the group, of which these are left."""

    left: list[int]


class GroupState:
    """A group of workers, from their start to the end of what they leave.

    Attributes:
        phase: its phase.
        processes: the workers, with the wait status of those that have ended.
    """

    def __init__(self, policy: StopPolicy, processes: Sequence[Process]) -> None:
        """Begin with workers that run; `processes` may become longer."""
        self.phase = Phase.RUNNING
        self.processes = processes
        self._policy = policy
        self._stop_signal: int | None = None
        self._foreign: set[int] = set()
        self._killed: set[int] = set()
        self._told = False
        self._kill_at: float | None = None
        self._give_up_at: float | None = None
        self._drain_until: float | None = None
        self._done: list[Any] = []
        self._handlers: dict[type, Callable[[Any, GroupFacts], None]] = {
            Stop: self._on_stop,
            Grace: self._on_grace,
            Reaped: self._on_reaped,
            Killed: lambda it, _seen: self._killed.update(it.pids),
            Foreign: lambda it, _seen: self._foreign.add(it.pid),
            Changed: lambda _it, _seen: None,
        }

    def step(self, event: object, seen: GroupFacts) -> list[Any]:
        """Handle an event, and what is due; return what is to be done, in this order.

        Exits are noted in the processes before.
        """
        if self.phase is Phase.ENDED:
            return []
        was_busy = self._busy
        self._on_time(seen)
        self._handlers[type(event)](event, seen)
        if not was_busy:
            self._settle(seen)
        done, self._done = self._done, []
        return done

    @property
    def due(self) -> float | None:
        """When a step is due if nothing happens before; None if none is."""
        kill = self._kill_at if self.phase in {Phase.RUNNING, Phase.SWEEPING} else None
        times = [time for time in (kill, self._give_up_at, self._drain_until) if time is not None]
        return min(times) if times and self.phase is not Phase.ENDED else None

    def looks(self, now: float) -> bool:
        """Return whether the next step needs to know the children."""
        due = self.due
        killing = self.phase is Phase.KILLING or (due is not None and due <= now)
        return self.phase is not Phase.ENDED and (killing or not self._busy)

    @property
    def sweeps(self) -> bool:
        """Whether the next step needs to know which of them are helpers."""
        return self.phase is Phase.RUNNING and not self._busy

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

    def _on_stop(self, stop: Stop, _seen: GroupFacts) -> None:
        """Signal the workers if the signal is another one."""
        if stop.number != self._stop_signal:
            self._stop_signal = stop.number
            for process in self.running():
                process.signalled = True
                if not stop.delivered:
                    self._signal(process.pid, stop.number)
                    self._signal(process.pid, signal.SIGCONT)

    def _on_grace(self, grace: Grace, seen: GroupFacts) -> None:
        """Set the deadline, which can only come nearer."""
        ends = seen.now + grace.seconds
        if self._kill_at is None or ends < self._kill_at:
            self._kill_at = ends

    def _signal(self, pid: int, number: int) -> None:
        self._done.append(Signal(pid, number, self._policy.group))

    def _on_time(self, seen: GroupFacts) -> None:
        """Do what is due."""
        due = self.due
        if due is None or due > seen.now:
            return
        if self._drain_until is not None and self._drain_until <= seen.now:
            self._stop_draining(seen)
        elif self.phase is Phase.KILLING:
            self._end(seen.children)
        else:
            self._kill(seen)

    def _kill(self, seen: GroupFacts) -> None:
        if self.phase is Phase.SWEEPING:
            self._tell(seen.children)
        self.phase, self._give_up_at = Phase.KILLING, seen.now + descendants.GIVE_UP
        self._kill_children(seen)

    def _kill_children(self, seen: GroupFacts) -> None:
        children = set(seen.children) - self._foreign
        if children:
            self._done.append(Kill(children, below=bool(children - self._killed)))
            self._killed |= children

    def _on_reaped(self, reaped: Reaped, seen: GroupFacts) -> None:
        self._killed.difference_update(reaped.pids)
        if self.phase is Phase.KILLING:
            self._kill_children(seen)

    # -- the end ----------------------------------------------------------------------------

    def _settle(self, seen: GroupFacts) -> None:
        """End the group if there is no orphan and no unread output."""
        left = [pid for pid in seen.children if pid not in self._foreign]
        if self.phase is Phase.ENDED:
            return
        if left and not self.may_stay():
            self._sweep(left, seen)
        elif not seen.writes:
            self._end(sorted(self._foreign.intersection(seen.children)))
        elif self._drain_until is None and not self._waits(seen):
            self._drain_until = seen.now + DRAIN

    def _waits(self, seen: GroupFacts) -> bool:
        """Return whether output is not read for now; that counts until the job is being stopped."""
        return seen.stalled and self._stop_signal is None

    def _stop_draining(self, seen: GroupFacts) -> None:
        self._drain_until = None
        if not self._waits(seen):
            self._end(sorted(self._foreign))

    def _sweep(self, left: Sequence[int], seen: GroupFacts) -> None:
        """End what the workers left behind: SIGTERM, a short pause, SIGKILL."""
        if self.phase is not Phase.RUNNING:
            return
        self.phase = Phase.SWEEPING
        asked = [pid for pid in left if pid not in seen.helpers]
        self._tell(asked)
        self._done += [Signal(pid, signal.SIGTERM) for pid in asked]
        if not (self._policy.group and self._stop_signal is not None):
            self._kill_at = seen.now + (ORPHAN_GRACE if asked else helpers.MOMENT)

    def _tell(self, pids: Sequence[int]) -> None:
        """Tell once what a job that has succeeded leaves running."""
        if pids and self._succeeded() and not self._told:
            self._told = True
            self._done.append(Tell(pids))

    def _end(self, left: Sequence[int]) -> None:
        self.phase = Phase.ENDED
        self._done.append(End([*left]))
