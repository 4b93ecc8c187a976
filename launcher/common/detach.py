"""A program that continues in the background once it is ready, without the terminal."""

from __future__ import annotations

import os
import signal
import socket
from contextlib import suppress

from .exit_codes import as_shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .detached_streams import StandIn

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that the parent passes on to its child until the child is ready: they end both."""

MOST = 4096
"""Most bytes of a child's message when it is ready."""

BLOCK = 1 << 16
"""Bytes of messages that are printed at once."""

HANDED_OVER = "_DSRUN_PARENT"
"""The variable with the descriptor of the line to the parent, for a program in place of a child."""


class Parent:
    """The process that the user has started, as its child in the background sees it.

    Attributes:
        handed_over: whether another program, which ends with this one, is between the two.
    """

    def __init__(
        self, line: socket.socket, stand_in: StandIn | None = None, *, handed_over: bool = False
    ) -> None:
        self._line = line
        self._stand_in = stand_in
        self.handed_over = handed_over

    def fileno(self) -> int:
        """Return a descriptor that can be read once the parent has ended."""
        return self._line.fileno()

    def hand_over(self) -> None:
        """Let a program that replaces this one, and its children, act as the child.

        If the parent is killed before the child is ready, the program gets SIGTERM.
        """
        assert self._stand_in is not None
        self._stand_in.take_place()
        self._line.set_inheritable(True)
        os.environ[HANDED_OVER] = str(self._line.fileno())

    def detach(self, last_words: str = "", folder: str | None = "/") -> None:
        """Let the parent exit with 0; give up the terminal and the current folder.

        Args:
            last_words: text for the parent to print on standard output, if any.
            folder: the new current folder; None to keep the old one.
        """
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        os.close(null)
        if folder is not None:
            os.chdir(folder)
        with self._line, suppress(OSError):
            self._line.send(b"\0" + last_words.encode())


def detached(program: Callable[[Parent], int], *, hands_over: bool = False) -> int:
    """Run a program in its own session; return after it has detached from this process or ended.

    This returns in both processes: in the child the result or exception of the program, in the
        parent the exit code for the command.

    Args:
        program: called with the parent.
        hands_over: whether it will hand over to another program.
    """
    if line := os.environ.pop(HANDED_OVER, ""):
        return program(_parent_behind(int(line)))
    stand_in = _stand_in() if hands_over else None
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        return program(Parent(theirs, stand_in))
    theirs.close()
    return _follow(ours, pid, stand_in)


def _stand_in() -> StandIn:
    from .detached_streams import StandIn

    return StandIn()


def _parent_behind(line: int) -> Parent:
    os.set_inheritable(line, False)
    return Parent(socket.socket(fileno=line), handed_over=True)


def _follow(line: socket.socket, pid: int, stand_in: StandIn | None) -> int:
    """Wait until the child is ready or has ended, and return the exit code.

    Messages of the child's stand-in are printed.
    """
    for number in PASSED_ON:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, _: os.kill(pid, number))
    with line:
        if stand_in is not None:
            stand_in.parent_goes_on()
            _print(stand_in.messages, line.fileno())
        said = line.recv(MOST)
    if not said:
        _, status = os.waitpid(pid, 0)
        return as_shell(os.waitstatus_to_exitcode(status))
    if stand_in is not None:
        stand_in.let_go()
    if len(said) > 1:
        from .entry import write

        write(said[1:].decode("utf-8", "replace"))
    return 0


def _print(messages: int, line: int) -> None:
    """Print messages until the child is ready, or has ended and closed their pipe."""
    from .poll import ready
    from .write_all import write_all

    while messages in (readable := ready([messages, line], None)) or line not in readable:
        text = os.read(messages, BLOCK)
        if not text:
            return
        write_all(2, text)
