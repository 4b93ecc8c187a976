"""A program that goes on in the background once it is ready, without the terminal."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

from .exit_codes import as_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that the parent passes on to its child until that is ready: they end both."""

MOST = 4096
"""Bytes of what a child may say when it is ready."""


class Parent:
    """The process that the user has started, as its child in the background sees it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def fileno(self) -> int:
        """Return a descriptor that can be read once the parent has ended."""
        return self._line.fileno()

    def leave(self, last_words: str = "", folder: str | None = "/") -> None:
        """Let the parent exit with 0; give up the terminal and the current folder.

        Args:
            last_words: what the parent prints on standard output, if anything.
            folder: the current folder from now on; None to keep it.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        if folder is not None:
            os.chdir(folder)
        with self._line, suppress(OSError):
            self._line.send(b"\0" + last_words.encode())


def detached(program: Callable[[Parent], int]) -> int:
    """Run a program in a session of its own; return once it has left this process, or has ended.

    This returns in both processes: in the child what the program returns or raises, and in the
    parent the exit code for the command.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        return program(Parent(theirs))
    theirs.close()
    return _follow(ours, pid)


def _follow(line: socket.socket, pid: int) -> int:
    """Wait until the child is ready or has ended, and return the exit code."""
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    with line:
        said = line.recv(MOST)
    if not said:
        _, status = os.waitpid(pid, 0)
        return as_shell(os.waitstatus_to_exitcode(status))
    if len(said) > 1:
        from .entry import write

        write(said[1:].decode("utf-8", "replace"))
    return 0
