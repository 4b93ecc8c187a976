"""What other commands of the same user may ask of a running job: the runner's half of dsrun-scale.

The socket is an abstract one (unix(7)): it has no file that could be left behind, and nobody can
reach it from another machine or network namespace. Who asks is what the kernel says.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from contextlib import suppress

from .. import loop as loops
from ..errors import DsrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..loop import Loop

LIMIT = 4096
"""Bytes of a request, or of an answer."""


def name(job_id: str = "") -> str:
    """Return the name of a job's socket, or what the names of all of this user's begin with."""
    return f"dsrun-{os.getuid()}-{job_id}"


class Requests:
    """Listens as long as this process lives."""

    def __init__(self, loop: Loop, job_id: str, resize: Callable[[int], str]) -> None:
        """Begin; `resize` is given a number of nodes, and returns or raises words for the asker.

        Raises:
            OSError: the socket cannot be had.
        """
        self._loop = loop
        self._resize = resize
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        self._door.bind(f"\0{name(job_id)}")
        self._door.listen()
        loop.watch(self._door.fileno(), loops.READ, self._accept)

    def _accept(self) -> None:
        caller, _ = self._door.accept()
        caller.setblocking(False)
        if _user(caller) in {0, os.getuid()}:
            self._loop.watch(caller.fileno(), loops.READ, lambda: self._serve(caller))
        else:
            caller.close()

    def _serve(self, caller: socket.socket) -> None:
        self._loop.unwatch(caller.fileno())
        with caller, suppress(OSError):
            caller.send(json.dumps(self._answer(caller.recv(LIMIT))).encode())

    def _answer(self, request: bytes) -> dict[str, object]:
        try:
            nodes = int(json.loads(request)["nodes"])
        except (ValueError, KeyError, TypeError):
            return {"done": False, "words": "not understood"}
        try:
            return {"done": True, "words": self._resize(nodes)}
        except DsrunError as error:
            return {"done": False, "words": str(error)}


def _user(caller: socket.socket) -> int:
    """Return the user id of who has called (SO_PEERCRED of unix(7))."""
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return int(uid)
