"""The environment of a program that replaces a detached child: streams, and SIGTERM in time."""

from __future__ import annotations

import os
import signal

from .death_signal import DeathSignal
from .poll import ready


class StandIn:
    """Pipes between a process and the program, made before the fork.

    Of the terminal, the program has only a pipe for messages: it may run as long as the job, and
    nobody should wait until it closes the streams of the command.

    Attributes:
        messages: the pipe for the program's standard error.
    """

    def __init__(self) -> None:
        self._stdin, self._lives = os.pipe()
        self.messages, self._stderr = os.pipe()
        self._death_signal = DeathSignal(self._stdin, signal.SIGTERM)

    def parent_goes_on(self) -> None:
        """Close the program's ends. From now on the end of this process ends the program."""
        os.close(self._stdin)
        os.close(self._stderr)

    def let_go(self) -> None:
        """Let the program continue without this process."""
        self._death_signal.cancel()

    def take_place(self) -> None:
        """Prepare the child to become the program; if the parent has ended, SIGTERM ends it."""
        null = os.open(os.devnull, os.O_WRONLY)
        for fd, stream in ((self._stdin, 0), (null, 1), (self._stderr, 2)):
            os.dup2(fd, stream)
        os.close(null)
        os.close(self._lives)
        self._death_signal.send_to(os.getpid())
        if ready([self._stdin], 0.0):  # its end was before there was somebody to tell
            os.kill(os.getpid(), signal.SIGTERM)
