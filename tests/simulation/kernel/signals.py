"""Signals: how they are sent, kept and acted upon."""

from __future__ import annotations

import errno
import signal
from typing import TYPE_CHECKING

from .process import error

if TYPE_CHECKING:
    from .kernel import Kernel
    from .process import Process

IGNORED = frozenset({signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT})
STOPS = frozenset({signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})
_UNCHANGEABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})
_CORES = frozenset(
    {
        signal.SIGQUIT, signal.SIGILL, signal.SIGABRT, signal.SIGFPE, signal.SIGSEGV,
        signal.SIGBUS, signal.SIGTRAP, signal.SIGSYS, signal.SIGXCPU, signal.SIGXFSZ,
    }
)  # fmt: skip


class Signals:
    """Sends signals to processes of any host."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def permit(self, sender: Process, target: Process, number: int) -> None:
        """Check that a process may signal another.

        Raises:
            OSError: it may not.
        """
        if not 0 <= number < signal.NSIG:
            raise error(errno.EINVAL)
        same_session = number == signal.SIGCONT and sender.sid == target.sid
        if sender.uid not in {0, target.uid} and not same_session:
            raise error(errno.EPERM)

    def send(self, target: Process, number: int, by: int = 0, code: int = 0) -> None:
        """Send a signal; `by` is the sender's pid."""
        if not number or not target.alive:
            return
        if number != signal.SIGCHLD:
            self._kernel.tell(
                "signalled", target.host.name, {"pid": target.pid, "number": int(number), "by": by}
            )
        if target.pid == 1 or target.exiting:
            return
        if number == signal.SIGKILL:
            self._kernel.kill(target, number)
            return
        self._before(target, number)
        awaited = any(number in task.awaited for task in target.tasks)
        if number in target.mask or awaited:
            target.pending.setdefault(number, (code, by, target.uid))
            target.signals.wake()
        elif (target.stopped or self._uninterruptible(target)) and number != signal.SIGSTOP:
            target.pending.setdefault(number, (code, by, target.uid))
        else:
            self._act(target, number)

    def deliver_pending(self, target: Process) -> None:
        """Act on what is pending and not blocked any more."""
        for number in sorted(target.pending):
            if number not in target.mask and not target.stopped and target.alive:
                del target.pending[number]
                self._act(target, number)

    def set_handler(self, process: Process, number: int, handler: object) -> object:
        """Change what a signal does; return what it did.

        Raises:
            OSError: it cannot be changed.
        """
        if not 1 <= number < signal.NSIG:
            raise ValueError("signal number out of range")
        if number in _UNCHANGEABLE:
            raise error(errno.EINVAL)
        before = self.handler(process, number)
        process.handlers[number] = handler
        if handler == signal.SIG_IGN or (handler == signal.SIG_DFL and number in IGNORED):
            process.pending.pop(number, None)
        return before

    def handler(self, process: Process, number: int) -> object:
        """Return what a signal does."""
        return process.handlers.get(number, signal.SIG_DFL)

    def _before(self, target: Process, number: int) -> None:
        if number == signal.SIGCONT:
            for one in STOPS:
                target.pending.pop(one, None)
            self._go_on(target)
        elif number in STOPS:
            target.pending.pop(signal.SIGCONT, None)

    def _act(self, target: Process, number: int) -> None:
        handler = self.handler(target, number)
        if number == signal.SIGSTOP or (number in STOPS and handler == signal.SIG_DFL):
            self._stop(target)
        elif handler == signal.SIG_IGN or (handler == signal.SIG_DFL and number in IGNORED):
            return
        elif handler in {signal.SIG_DFL, signal.default_int_handler}:
            self._kernel.kill(target, number | (0x80 if number in _CORES and target.cores else 0))
        else:
            self._kernel.descriptors.write_wakeup(target, number)

    def _stop(self, target: Process) -> None:
        if not target.stopped:
            target.stopped = True
            target.stops += 1
            self._tell_parent(target)

    def _go_on(self, target: Process) -> None:
        if target.stopped:
            target.stopped = False
            self._tell_parent(target)
            self.deliver_pending(target)
            for task in target.tasks:
                task.unpark()

    def _tell_parent(self, target: Process) -> None:
        if target.parent is not None:
            self.send(target.parent, signal.SIGCHLD, target.pid)

    @staticmethod
    def _uninterruptible(target: Process) -> bool:
        return target.stuck or any(task.uninterruptible for task in target.tasks)
