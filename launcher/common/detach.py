"""A program that goes on in the background once it is ready, without the terminal."""

from __future__ import annotations

import os
import socket

from .exit_codes import as_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Parent:
    """The process that the user has started, as its child in the background sees it."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def fileno(self) -> int:
        """Return a descriptor that can be read once the parent has ended."""
        return self._line.fileno()

    def leave(self) -> None:
        """Let the parent exit with 0; give up the terminal and the current folder."""
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        os.chdir("/")
        with self._line:
            self._line.send(b"\0")


def detached(program: Callable[[Parent], int]) -> int:
    """Run a program in a session of its own; return once it has left this process, or has ended.

    This returns in both processes: in the child what the program returns or raises, and in the
    parent the exit code for the command.
    """
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        return program(Parent(theirs))
    theirs.close()
    with ours:
        if ours.recv(1):
            return 0
    _, status = os.waitpid(pid, 0)
    return as_shell(os.waitstatus_to_exitcode(status))
