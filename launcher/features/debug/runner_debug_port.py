"""The port of this machine at which an editor reaches one rank."""

from __future__ import annotations

import os
import socket

from .runner_peers import owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop

BACKLOG = 8
"""Connections that wait while an editor is connected, or the rank is between two rounds."""


class DebugPort:
    """A free port on loopback, for this user and root; it stays unchanged for the whole job."""

    def __init__(
        self, loop: Loop, enter: Callable[[socket.socket], None], refused: Callable[[], None]
    ) -> None:
        """Listen, but accept nothing before `open`.

        `enter` is called with a connection, and `refused` for each of another user.

        Raises:
            OSError: there is no port, or no descriptor.
        """
        self._loop = loop
        self._enter = enter
        self._refused = refused
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._socket.setblocking(False)
            self._socket.bind(("127.0.0.1", 0))
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def open(self) -> None:
        """Accept one connection; those that come meanwhile wait."""
        if self._socket.fileno() >= 0 and not self._loop.has_reader(self._socket.fileno()):
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def pause(self) -> None:
        """Accept nothing until it is opened again."""
        if self._socket.fileno() >= 0:
            self._loop.remove(self._socket.fileno())

    def close(self) -> None:
        """Give up the port."""
        self.pause()
        self._socket.close()

    def _accept(self) -> None:
        try:
            line, _ = self._socket.accept()
        except OSError:
            return  # it has gone again
        uid = owner(line)
        if uid in {0, os.getuid()}:
            self.pause()
            self._enter(line)
            return
        line.close()
        if uid is not None:
            self._refused()
