"""Virtual time: a heap of events, and the tasks (greenlets) that they wake."""

from __future__ import annotations

import heapq
import math
import random
from typing import TYPE_CHECKING

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .process import Process

CALL = 1e-6
"""Seconds that a system call takes."""

LEAST, MOST = 2e-5, 1e-3
"""Seconds from the time when a task can go on until it does."""

PREEMPTED = 0.02
"""The probability that another task goes on at a system call, although this one could."""


MANY = 10_000
"""Events among which those that were cancelled are looked for."""


class Gone(BaseException):
    """The process has ended, or executes another program: nothing more of this code has effects."""


class Event:
    """A call at a time of the world."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Do not call it."""
        self.call = None


class Queue:
    """Tasks that wait for something."""

    __slots__ = ("tasks",)

    def __init__(self) -> None:
        self.tasks: dict[Task, None] = {}

    def wake(self) -> None:
        """Let all of them look again."""
        if self.tasks:
            for task in tuple(self.tasks):
                task.wake()


class Task:
    """One thread of a process.

    Attributes:
        tid: its thread id.
        dead: whether its code has no effects any more.
        where: what it waits for, as /proc/PID/wchan names it.
        uninterruptible: whether not even SIGKILL ends the wait.
        awaited: signals that it takes in sigtimedwait.
    """

    def __init__(
        self, scheduler: Scheduler, process: Process, run: Callable[[], object], tid: int
    ) -> None:
        self.process = process
        self.tid = tid
        self.dead = False
        self.where = ""
        self.uninterruptible = False
        self.awaited: frozenset[int] = frozenset()
        self.joined = Queue()
        self.scheduled = False
        self.parked = False
        self._scheduler = scheduler
        self.greenlet = greenlet(run, parent=scheduler.main)

    def wake(self) -> None:
        """Let the task go on, a little later."""
        if not self.scheduled and not self.dead:
            self.scheduled = True
            self._scheduler.at(self._scheduler.cost(), self._resume)

    def _resume(self) -> None:
        self.scheduled = False
        if self.dead:
            return
        if self.process.stuck or (self.process.stopped and not self.uninterruptible):
            self.parked = True
            return
        self._scheduler.switch_to(self)

    def unpark(self) -> None:
        """Go on after a stop."""
        if self.parked:
            self.parked = False
            self.wake()


class Scheduler:
    """Runs events and tasks in the order of their times.

    Attributes:
        now: seconds since the start of the world.
        random: all chance there is.
        task: the task whose code runs; None while the world's does.
    """

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.task: Task | None = None
        self.main = getcurrent()
        self.preempted = PREEMPTED
        self._events: list[tuple[float, int, Event]] = []
        self._count = 0
        self._most = MANY
        self._corpses: list[Task] = []
        self._chance = self.random.random
        self._stopping = False

    def at(self, seconds: float, call: Callable[[], object]) -> Event:
        """Call something so many seconds from now."""
        event = Event(call)
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, event))
        if len(self._events) > self._most:
            self._forget_cancelled()
        return event

    def _forget_cancelled(self) -> None:
        """Drop events that were cancelled: most limits of waits are never reached."""
        self._events[:] = [one for one in self._events if one[2].call is not None]
        heapq.heapify(self._events)
        self._most = max(MANY, 2 * len(self._events))

    @property
    def planned(self) -> int:
        """How many events are to come, with some that were cancelled."""
        return len(self._events)

    def cost(self) -> float:
        """Return how long it takes until a task goes on that is woken now; mostly short."""
        chance = self._chance
        return LEAST + chance() * chance() * (MOST - LEAST)

    def run(self, until: float = math.inf) -> None:
        """Run until nothing is left to do, or this time."""
        events = self._events
        self._stopping = False
        while events and events[0][0] <= until and not self._stopping:
            time, _, event = heapq.heappop(events)
            if event.call is not None:
                self.now = max(self.now, time)
                event.call()
                if self._corpses:
                    self.unwind()
        if until < math.inf and not self._stopping:
            self.now = max(self.now, until)

    def stop(self) -> None:
        """Let `run` return after the event that is being handled."""
        self._stopping = True

    def switch_to(self, task: Task) -> None:
        """Run a task until it waits."""
        self.task = task
        try:
            task.greenlet.switch()
        finally:
            self.task = None

    def wait(
        self, queues: Iterable[Queue], seconds: float | None = None, where: str = "do_wait"
    ) -> None:
        """Wait until one of the queues is woken, or so many seconds; it may be for nothing."""
        task = self.running()
        for queue in queues:
            queue.tasks[task] = None
        event = None if seconds is None else self.at(max(0.0, seconds), task.wake)
        task.where = where
        try:
            self.main.switch()
        finally:
            task.where = ""
            for queue in queues:
                queue.tasks.pop(task, None)
            if event is not None:
                event.cancel()
        if task.dead:
            raise Gone

    def pause(self) -> None:
        """Let others go on first."""
        task = self.running()
        task.wake()
        self.main.switch()
        if task.dead:
            raise Gone

    def running(self) -> Task:
        """Return the task whose code runs.

        Raises:
            Gone: its process has ended.
        """
        if self.task is None:
            raise RuntimeError("a system call of the world's own code")
        if self.task.dead:
            raise Gone
        return self.task

    def enter(self) -> Process:
        """Begin a system call; return the process that calls."""
        task = self.running()
        self.now += CALL
        process = task.process
        process.cpu += CALL
        if process.trap is not None:
            process.trap()
        if self._chance() < self.preempted:
            self.pause()
        return process

    def bury(self, task: Task) -> None:
        """End the code of a task, now or as soon as the running one waits."""
        if not task.dead:
            task.dead = True
            task.joined.wake()
            self._corpses.append(task)
            self.at(0.0, _nothing)  # the world may do this while nothing runs

    def unwind(self) -> None:
        """End the code of tasks that are dead."""
        while self._corpses:
            task = self._corpses.pop(0)
            if task.greenlet:
                self.task = task
                task.greenlet.throw(Gone)
                self.task = None


def _nothing() -> None:
    """Do nothing."""
