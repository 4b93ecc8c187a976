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

from ...common.errors import DsrunError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Loop, Timer

LIMIT = 4096
"""Bytes of a request, or of an answer."""

MOST = 9_999_999
"""Nodes that may be asked for: no job has as many."""

PATIENCE = 5.0
"""Seconds for a caller to say what it wants."""

AT_ONCE = 16
"""Callers who have not said it yet."""

REST = 1.0
"""Seconds after a caller could not be taken in: without descriptors each attempt would fail."""

JOB = "[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"
"""How the id of a job is formed, as a pattern."""


def name(job_id: str = "") -> str:
    """Return the name of a job's socket, or what the names of all of this user's begin with."""
    return f"dsrun-{os.getuid()}-{job_id}"


def trusted(line: socket.socket) -> bool:
    """Tell whether the other end is this user's, or root's (SO_PEERCRED of unix(7)).

    Raises:
        OSError: there is no other end.
    """
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in {0, os.getuid()}


def listener(job_id: str) -> socket.socket:
    """Return a job's socket, which listens.

    Raises:
        OSError: it cannot be had.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        listener.bind(f"\0{name(job_id)}")
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


class ScaleSocket:
    """Listens until it is closed."""

    def __init__(self, loop: Loop, listener: socket.socket, resize: Callable[[int], str]) -> None:
        """Begin; `resize` is given a number of nodes, and returns or raises words for the asker."""
        self._loop = loop
        self._resize = resize
        self._callers: dict[socket.socket, Timer] = {}
        self._listener = listener
        self._listen()

    def close(self) -> None:
        """Listen no more, and leave those who wait for an answer."""
        self._loop.remove(self._listener.fileno())
        self._listener.close()
        for caller in tuple(self._callers):
            self._leave(caller)

    def _listen(self) -> None:
        if self._listener.fileno() < 0:
            return
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except OSError:
            self._loop.remove(self._listener.fileno())
            self._loop.call_later(REST, self._listen)
            return
        if len(self._callers) < AT_ONCE and trusted(caller):
            caller.setblocking(False)
            self._callers[caller] = self._loop.call_later(PATIENCE, lambda: self._leave(caller))
            self._loop.add_reader(caller.fileno(), lambda: self._serve(caller))
        else:
            caller.close()

    def _serve(self, caller: socket.socket) -> None:
        # Who has left, or takes no answer, is no matter.
        with suppress(OSError):
            request = caller.recv(LIMIT + 1)
            if request:
                caller.send(json.dumps(self._answer(request)).encode())
        self._leave(caller)

    def _leave(self, caller: socket.socket) -> None:
        self._callers.pop(caller).cancel()
        self._loop.remove(caller.fileno())
        caller.close()

    def _answer(self, request: bytes) -> dict[str, object]:
        try:
            return {"done": True, "words": self._resize(_nodes(request))}
        except DsrunError as error:
            return {"done": False, "words": str(error)}


def _nodes(request: bytes) -> int:
    """Return the number of nodes that a request asks for."""
    try:
        asked = json.loads(request) if len(request) <= LIMIT else None
    except (ValueError, RecursionError):
        asked = None
    nodes = asked.get("nodes") if isinstance(asked, dict) else None
    if type(nodes) is not int or not 0 <= nodes <= MOST:
        raise DsrunError(f'invalid request: expected {{"nodes": N}} with N up to {MOST}')
    return nodes
