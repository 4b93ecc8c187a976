"""Threads of a process, and conditions for them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .scheduler import Gone, Queue, Task

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .kernel import Kernel


class Thread:
    """A threading.Thread object that was started."""

    daemon = True

    def __init__(self, kernel: Kernel, run: Callable[[], object], name: str | None) -> None:
        process = kernel.enter()
        self._kernel = kernel
        self._run = run
        self.name = name or "Thread"
        self._task = Task(kernel, process, self._body, process.host.new_pid())
        self.ident = self.native_id = self._task.tid
        process.tasks.append(self._task)
        self._task.wake()

    def _body(self) -> None:
        task = self._kernel.running()
        try:
            self._run()
        except Gone:
            return
        except SystemExit:
            pass
        except BaseException as problem:
            if task.dead:
                return
            self._kernel.crash(task.process, problem)
        if not task.dead:
            task.process.tasks.remove(task)
            self._kernel.bury(task)

    def is_alive(self) -> bool:
        """Return whether it has not ended."""
        return not self._task.dead

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        kernel = self._kernel
        kernel.enter()
        last = None if timeout is None else kernel.now + timeout
        while not self._task.dead and (last is None or kernel.now < last):
            rest = None if last is None else last - kernel.now
            kernel.wait((self._task.joined,), rest, "futex_wait_queue")


class Condition:
    """A threading.Condition object."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._owner: Task | None = None
        self._depth = 0
        self._free = Queue()
        self._waiters: list[Waiter] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock."""
        kernel = self._kernel
        kernel.enter()
        me = kernel.running()
        last = kernel.now + timeout if timeout >= 0 else None
        while self._taken(me):
            if not blocking or (last is not None and kernel.now >= last):
                return False
            rest = None if last is None else last - kernel.now
            kernel.wait((self._free,), rest, "futex_wait_queue")
        self._owner = me
        self._depth += 1
        return True

    def _taken(self, me: Task) -> bool:
        owner = self._owner
        # A process that has ended leaves nothing locked: it has a copy of all conditions.
        return owner is not None and owner is not me and owner.process is me.process

    def release(self) -> None:
        """Give the lock back."""
        if self._owner is not self._kernel.running():
            raise RuntimeError("cannot release un-acquired lock")
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._free.wake()

    def __enter__(self) -> bool:
        """Take the lock."""
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the lock back."""
        if kind is not Gone:
            self.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until notified; return whether it was."""
        kernel, me = self._kernel, self._mine()
        waiter = Waiter()
        self._waiters.append(waiter)
        depth, self._depth, self._owner = self._depth, 0, None
        self._free.wake()
        last = None if timeout is None else kernel.now + timeout
        while not waiter.notified and (last is None or kernel.now < last):
            rest = None if last is None else last - kernel.now
            kernel.wait((waiter.queue,), rest, "futex_wait_queue")
        if not waiter.notified:
            self._waiters.remove(waiter)
        while self._taken(me):
            kernel.wait((self._free,), where="futex_wait_queue")
        self._owner, self._depth = me, depth
        return waiter.notified

    def wait_for(self, predicate: Callable[[], object], timeout: float | None = None) -> object:
        """Wait until a predicate is true, or so many seconds; return its value."""
        last = None if timeout is None else self._kernel.now + timeout
        while not (found := predicate()):
            rest = None if last is None else last - self._kernel.now
            if rest is not None and rest <= 0:
                break
            self.wait(rest)
        return found

    def notify(self, n: int = 1) -> None:
        """Wake some who wait."""
        self._mine()
        woken, self._waiters = self._waiters[:n], self._waiters[n:]
        for one in woken:
            one.notified = True
            one.queue.wake()

    def notify_all(self) -> None:
        """Wake all who wait."""
        self.notify(sys.maxsize)

    def _mine(self) -> Task:
        me = self._kernel.running()
        if self._owner is not me:
            raise RuntimeError("cannot wait on un-acquired lock")
        return me


class Waiter:
    """A thread that waits to be notified."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.notified = False
