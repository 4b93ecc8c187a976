"""The event loop for descriptors, signals and timers, used by the runner and the node launcher.

Only the loop runs callbacks, one at a time. A signal handler only notes that a signal has arrived:
the interpreter writes the signal's number to a wake-up descriptor, which the loop reads like any
other.
"""

from __future__ import annotations

import heapq
import os
import select
import signal
from collections import deque
from contextlib import suppress

from . import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    Callback: TypeAlias = Callable[[], None]

READ, WRITE = select.EPOLLIN, select.EPOLLOUT

AT_ONCE = 64
"""Calls of other threads that are made before the loop checks for other events."""

LATE = 0.1
"""Seconds by which a timer is late if this process was stopped or busy."""


class Timer:
    """A callback that is run once, unless cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callback) -> None:
        self.call: Callback | None = call

    def cancel(self) -> None:
        """Do not run the callback."""
        self.call = None


class Timers:
    """Callbacks that are due at some time; the owner, who knows the time, runs them.

    Attributes:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Timer]] = []
        self._count = 0

    def call_later(self, seconds: float, call: Callback) -> Timer:
        """Call `call` once, `seconds` from now."""
        timer = Timer(call)
        self._count += 1
        heapq.heappush(self._heap, (self.clock() + seconds, self._count, timer))
        return timer

    def __len__(self) -> int:
        return sum(timer.call is not None for _, _, timer in self._heap)

    def postpone(self, seconds: float) -> None:
        """Make all timers wait this number of seconds longer."""
        self._heap = [(due + seconds, count, timer) for due, count, timer in self._heap]

    @property
    def due(self) -> float | None:
        """The time of the next timer; None without timers."""
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def expired(self, now: float) -> Callback | None:
        """Remove and return the next callback that is due by `now`, if any."""
        due = self.due
        return heapq.heappop(self._heap)[2].call if due is not None and due <= now else None


class DueTimer:
    """One timer for a state that says after each step when it needs the next one."""

    def __init__(
        self, timers: Timers | Loop, clock: Callable[[], float], call: Callable[[], object]
    ) -> None:
        """Call `call` when something is due; `clock` returns times as given to `set`."""
        self._timers, self._clock, self._call = timers, clock, call
        self._set: tuple[float, Timer] | None = None

    def set(self, due: float | None) -> None:
        """Call at this time, and at no other; None for never."""
        if self._set is not None:
            if self._set[0] == due:
                return
            self._set[1].cancel()
        self._set = None
        if due is not None:
            self._set = due, self._timers.call_later(due - self._clock(), self._expire)

    def _expire(self) -> None:
        self._set = None
        self._call()


class Loop:
    """Waits for events and runs their callbacks; `stop` ends `run` after the current callback.

    Attributes:
        signals: a descriptor that can be read once a signal has arrived; -1 without handlers.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """Start without events; by default, the clock is the monotonic clock."""
        self.clock = clock or system.monotonic
        self._epoll = system.epoll()
        self._calls: dict[int, dict[int, Callback]] = {}
        self._timers = Timers(self.clock)
        self._suspended = 0.0
        self._stopped = self._signalled = False
        self._posted: list[Callback] = []
        self._wake_fd = self.signals = -1

    def add_reader(self, fd: int, call: Callback) -> None:
        """Call `call` whenever `fd` can be read.

        Raises:
            PermissionError: `fd` is a regular file, which is always ready; epoll(7) refuses it.
        """
        self._add(fd, READ, call)

    def add_writer(self, fd: int, call: Callback) -> None:
        """Call `call` whenever `fd` can be written; raises as `add_reader`."""
        self._add(fd, WRITE, call)

    def remove_writer(self, fd: int) -> None:
        """Remove the writer of `fd`, if any."""
        self._remove(fd, WRITE)

    def remove(self, fd: int) -> None:
        """Remove the reader and the writer of `fd`, if any."""
        self._remove(fd, READ | WRITE)

    def has_reader(self, fd: int) -> bool:
        """Return whether `fd` has a reader."""
        return READ in self._calls.get(fd, {})

    def has_writer(self, fd: int) -> bool:
        """Return whether `fd` has a writer."""
        return WRITE in self._calls.get(fd, {})

    def _add(self, fd: int, event: int, call: Callback) -> None:
        calls = self._calls.get(fd, {})
        if event not in calls:
            mask = sum(calls) | event
            (self._epoll.modify if calls else self._epoll.register)(fd, mask)
        self._calls[fd] = {**calls, event: call}

    def _remove(self, fd: int, events: int) -> None:
        calls = self._calls.get(fd)
        if not calls:
            return
        for one in [known for known in calls if known & events]:
            del calls[one]
        if calls:
            self._epoll.modify(fd, sum(calls))
        else:
            del self._calls[fd]
            with suppress(OSError):  # already closed
                self._epoll.unregister(fd)

    def call_later(self, seconds: float, call: Callback) -> Timer:
        """Call `call` once, `seconds` from now."""
        return self._timers.call_later(seconds, call)

    def postpone(self, seconds: float) -> None:
        """Make all timers wait longer by the seconds in which this process was stopped."""
        self._timers.postpone(seconds)
        self._suspended += seconds

    def awake(self) -> float:
        """Return the time on a clock that does not count those seconds (`postpone`)."""
        return self.clock() - self._suspended

    def on_signals(self, numbers: Iterable[int], call: Callable[[int], None]) -> None:
        """Call `call` with the number of each of these signals that arrives.

        Of signals that arrive together, SIGCHLD comes last: the others may explain the child's end.
        """
        read_fd, write_fd = system.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        system.set_wakeup_fd(write_fd, warn_on_full_buffer=False)
        for number in numbers:
            system.set_handler(number, self._record)

        def drain() -> None:
            self._signalled = False
            for number in sorted(system.read(read_fd, 4096), key=signal.SIGCHLD.__eq__):
                call(number)

        self.add_reader(read_fd, drain)
        self.signals = read_fd

    def _record(self, _number: int, _frame: object) -> None:
        """Note that a signal arrived; the interpreter writes its number to the descriptor."""
        self._signalled = True

    def catch_up(self) -> None:
        """Handle pending events, without waiting, if a signal has arrived."""
        if self._signalled:
            self.call_later(0.0, self.stop)
            self.run()

    def open_to_threads(self) -> None:
        """Enable `call_soon_threadsafe`; only the first call opens two descriptors."""
        if self._wake_fd >= 0:
            return
        read_fd, self._wake_fd = system.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

        def drain() -> None:
            system.read(read_fd, 4096)
            posted, self._posted[:AT_ONCE] = self._posted[:AT_ONCE], []
            if self._posted:
                self._wake()
            for call in posted:
                call()

        self.add_reader(read_fd, drain)

    def call_soon_threadsafe(self, call: Callback) -> None:
        """Run `call` from the loop soon; the only method that other threads may call."""
        self._posted.append(call)
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):
            # The pipe is full of unread wake-ups, so one more is not needed.
            system.write(self._wake_fd, b"\0")

    def stop(self) -> None:
        """Make `run` return."""
        self._stopped = True

    def run(self) -> None:
        """Wait for events and run callbacks until `stop`."""
        self._stopped = False
        while not self._stopped:
            due = self._timers.due
            self._wait(None if due is None else max(0.0, due - self.clock()))
            self._expire()

    def _wait(self, seconds: float | None) -> None:
        # SIGSTOP and SIGCONT end the wait before it reports the events of that time. Poll once
        # more, so that these events are handled before the timers that expired during the stop.
        for fd, ready in self._epoll.poll(seconds) or self._epoll.poll(0):
            # An error or a hang-up is reported to readers and writers alike.
            for event, other in ((READ, WRITE), (WRITE, READ)):
                call = self._calls.get(fd, {}).get(event) if ready & ~other else None
                if call is not None and not self._stopped:
                    call()

    def _expire(self) -> None:
        now, due = self.clock(), self._timers.due
        if due is not None and now - due >= LATE:
            self._wait(0.0)  # the same where a callback was stopped, or took long
        while not self._stopped and (call := self._timers.expired(now)) is not None:
            call()


class Turns:
    """Calls made one per turn of the loop: signals are handled between them.

    Attributes:
        waiting: whether there are more calls.
    """

    def __init__(self, loop: Loop, room: Callable[[], bool] = lambda: True) -> None:
        """Start without calls. Without `room`, no call is made until `resume` is called."""
        self._loop, self._room = loop, room
        self._calls: deque[Callback] = deque()
        self._due = False

    @property
    def waiting(self) -> bool:
        """True if there are calls that have not been made."""
        return bool(self._calls)

    def add(self, calls: Iterable[Callback]) -> None:
        """Make these calls after the waiting ones; make the first at once if none is waiting."""
        self._calls.extend(calls)
        if not self._due:
            self._next()

    def resume(self) -> None:
        """Continue in the next turn: there is room again."""
        if self._calls and not self._due:
            self._due = True
            self._loop.call_later(0.0, self._next)

    def cancel(self) -> None:
        """Drop all waiting calls."""
        self._calls.clear()

    def _next(self) -> None:
        self._due = False
        if self._calls and self._room():
            self._calls.popleft()()
            self.resume()
