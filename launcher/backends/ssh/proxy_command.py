"""ProxyCommand: a program whose standard input and output lead to the host's sshd."""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import suppress

from ...common import executable

KEPT = 4096
"""Bytes of its standard error that are kept to explain a failure."""

EXIT_TIMEOUT = 0.5
"""Seconds to wait for its exit once its socket is closed."""


class ProxyCommand:
    """A running ProxyCommand.

    Attributes:
        socket: leads to sshd; closed when the program ends.
    """

    def __init__(self, command: str) -> None:
        """Start the command in the user's shell, which it replaces (ssh_config(5), ProxyCommand).

        Raises:
            OSError: the shell cannot be started.
        """
        self.socket, theirs = socket.socketpair()
        self._errors = os.memfd_create("proxy-command")
        shell = os.environ.get("SHELL") or "/bin/sh"
        with theirs:
            self._process = subprocess.Popen(
                [shell, "-c", f"exec {command}"],
                executable=executable.located(shell),
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=self._errors,
                start_new_session=True,  # Ctrl-C at the terminal is for dsrun
            )

    def failure(self) -> str:
        """Return why the command has ended: its last line of errors, or its exit code, or ""."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(EXIT_TIMEOUT)
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, KEPT, max(0, size - KEPT)).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        code = self._process.returncode
        return lines[-1][:200] if lines else f"exit code {code}" if code else ""

    def close(self) -> None:
        """Stop the command."""
        self.socket.close()
        self._process.terminate()
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._errors)
