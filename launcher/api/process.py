"""Starts the process behind a job or a fleet of a program."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress

from ..backends.own_module import module_argv
from ..control.local_client import LocalClient

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class ServiceProcess(Protocol):
        """The process that runs a job, and the connection to it."""

        @property
        def pid(self) -> int:
            """The pid of the process."""
            ...

        @property
        def client(self) -> LocalClient:
            """Asks the process about the job."""
            ...

        def close(self) -> None:
            """End the connection; the job is stopped, if it has not ended."""
            ...


PATIENCE = 10.0
"""Seconds for the process to end once it has nothing more to do."""


class RunnerProcess:
    """A child process that runs a job, or holds nodes, for this program.

    It has its own session, so a Ctrl-C in the terminal reaches this program alone.

    Attributes:
        client: the connection to it; closing the connection ends its jobs.
    """

    def __init__(self, module: str) -> None:
        """Start a module of dsrun, with the descriptor of a socket to this program, and our pid."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                module_argv(module, str(theirs.fileno()), str(os.getpid())),
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.client = LocalClient(ours)

    def close(self) -> None:
        """Close the connection and wait for the end of the process; may be called twice."""
        self.client.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
            return
        self._process.kill()
        self._process.wait()
