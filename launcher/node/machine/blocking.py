"""Calls of functions that may block forever, such as questions to a driver, in forked children."""

from __future__ import annotations

import gc
import json
import os
import signal
from functools import partial

from ...common import system
from . import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn, TextIO

    from ...common.loop import Loop


def call_in_child(function: Callable[[], object]) -> tuple[int, int]:
    """Call a function in a child; return the child's pid, and a pipe with the result as JSON.

    The pipe ends without a complete result if the function raises, or the child is killed. The
    child does not outlive this process.

    Raises:
        OSError: there is no room for another process, or no descriptor left.
    """
    return write_in_child(lambda pipe: json.dump(function(), pipe))


def write_in_child(write: Callable[[TextIO], object]) -> tuple[int, int]:
    """Call a function in a child, where it writes to a pipe itself; else like `call_in_child`."""
    ours, theirs = system.pipe2(os.O_CLOEXEC)
    parent = system.getpid()
    try:
        pid = system.fork(lambda: _write(write, theirs, parent))
    except OSError:
        system.close(ours)
        system.close(theirs)
        raise
    system.close(theirs)
    return pid, ours


def _write(write: Callable[[TextIO], object], fd: int, parent: int) -> NoReturn:
    gc.disable()  # a garbage collection would copy every page shared with the parent
    try:
        system.set_wakeup_fd(-1)  # the wake-up pipe belongs to the parent, too
        processes.die_with_parent(signal.SIGKILL)
        # If this process hangs, the runner must still notice that the node launcher has ended.
        processes.close_all_but(fd)
        if system.getppid() == parent:
            with system.open_file(fd, "w", encoding="utf-8") as pipe:
                write(pipe)
    finally:
        system.exit_now(0)


STAYS = b"\ntrue\n"
"""The last line of a child that has answered, and holds a resource until killed."""


class ChildCall:
    """A call in a child, watched by a loop.

    Attributes:
        pid: the pid of the child, 0 once it is reaped.
        data: the output of the child so far.
        given_up: whether its result is no longer awaited; a disk may still keep the child alive.
    """

    def __init__(
        self,
        loop: Loop,
        called: tuple[int, int],
        seconds: float,
        answered: Callable[[bytes], None],
    ) -> None:
        """Wait until a call of `call_in_child` has ended, or only `STAYS`.

        `answered` gets the child's output, or b"" after this many seconds.
        """
        self._loop = loop
        self._answered: Callable[[bytes], None] | None = answered
        self.pid, self._fd = called
        system.set_blocking(self._fd, False)
        self.data = bytearray()
        self.given_up = False
        loop.add_reader(self._fd, self._read)
        self._timer = loop.call_later(seconds, self._cancel)

    @property
    def asking(self) -> bool:
        """True if an answer can still come."""
        return self._fd >= 0

    def reaped(self, pid: int) -> None:
        """Note that a child of this process was reaped."""
        if pid == self.pid:
            self.pid = 0

    def close(self) -> None:
        """Kill the child, and give no answer."""
        self._answered = None
        self._cancel()

    def _cancel(self) -> None:
        self.given_up = self.given_up or self.asking
        self._finish()

    def _read(self) -> None:
        try:
            block = system.read(self._fd, 65536)
        except BlockingIOError:  # the event belonged to an earlier descriptor with this number
            return
        self.data += block
        if not block:
            self._finish(bytes(self.data))
        elif self.data.endswith(STAYS):
            self._timer.cancel()
            self._tell(bytes(self.data))

    def _finish(self, data: bytes = b"") -> None:
        if self._fd < 0:
            return
        self._timer.cancel()
        self._loop.remove(self._fd)
        system.close(self._fd)
        self._fd = -1
        if self.pid:
            processes.send(self.pid, signal.SIGKILL)
        self._tell(data)

    def _tell(self, data: bytes) -> None:
        answered, self._answered = self._answered, None
        if answered is not None:
            answered(data)


class Calls:
    """The calls in children of one owner, which distinguishes its children from others."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._calls: list[ChildCall] = []
        self._due: dict[ChildCall, Callable[[], None]] = {}

    @property
    def pids(self) -> set[int]:
        """The pids of the children that answer."""
        return {one.pid for one in self._calls} - {0}

    @property
    def stuck(self) -> set[int]:
        """The pids of children that were abandoned, but have not ended."""
        return {one.pid for one in self._calls if one.given_up} - {0}

    def call(
        self, function: Callable[[], object], seconds: float, answered: Callable[[bytes], None]
    ) -> None:
        """Call a function in a child; `answered` gets its result as JSON, or b"" after `seconds`.

        The child is reaped first, unless it does not end.

        Raises:
            OSError: see `call_in_child`.
        """

        def heard(data: bytes) -> None:
            if call.pid and not call.given_up:
                self._due[call] = partial(answered, data)
            else:
                answered(data)

        call = self.wait(call_in_child(function), seconds, heard)

    def wait(
        self, called: tuple[int, int], seconds: float, answered: Callable[[bytes], None]
    ) -> ChildCall:
        """Wait as `ChildCall` does; `answered` may be called before the child is reaped."""
        call = ChildCall(self._loop, called, seconds, answered)
        self._calls.append(call)
        return call

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for pid in reaped:
            for one in self._calls:
                one.reaped(pid)
        for one in [due for due in self._due if not due.pid]:
            self._due.pop(one)()
        self._calls = [one for one in self._calls if one.pid or one.asking]

    def close(self) -> None:
        """Stop answering."""
        self._due.clear()
        for one in self._calls:
            one.close()
