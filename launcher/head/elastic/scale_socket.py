"""The socket on which a running job takes requests of dsrun-scale.

It is an abstract socket (unix(7)): no file can be left behind, and it cannot be reached from
another machine or network namespace. The kernel reports which user is at the other end.
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
"""Largest number of nodes in a request."""

PATIENCE = 5.0
"""Seconds for a caller to send its request."""

AT_ONCE = 16
"""Callers that may be connected without having sent a request."""

REST = 1.0
"""Seconds to wait after accept() has failed: without free descriptors it fails again at once."""

JOB = "[0-9]{8}-[0-9]{6}-[0-9a-f]{6}"
"""Pattern of a job id."""


def name(job_id: str = "") -> str:
    """Return the name of a job's socket; without an id, the prefix of all sockets of this user."""
    return f"dsrun-{os.getuid()}-{job_id}"


def trusted(line: socket.socket) -> bool:
    """Return whether the other end belongs to this user or root (SO_PEERCRED of unix(7)).

    Raises:
        OSError: the socket is not connected.
    """
    size = struct.calcsize("3i")
    _, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return uid in {0, os.getuid()}


def listener(job_id: str) -> socket.socket:
    """Return the listening socket of a job.

    Raises:
        OSError: it cannot be made.
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
    """Answers requests until it is closed."""

    def __init__(self, loop: Loop, listener: socket.socket, resize: Callable[[int], str]) -> None:
        """Start to listen; `resize` gets a number of nodes, and returns the answer or raises it."""
        self._loop = loop
        self._resize = resize
        self._callers: dict[socket.socket, Timer] = {}
        self._listener = listener
        self._listen()

    def close(self) -> None:
        """Stop listening, and close all connections."""
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
        # A caller that has left, or reads no answer, does not matter.
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
    """Return the number of nodes in a request."""
    try:
        content = json.loads(request) if len(request) <= LIMIT else None
    except (ValueError, RecursionError):
        content = None
    nodes = content.get("nodes") if isinstance(content, dict) else None
    if type(nodes) is not int or not 0 <= nodes <= MOST:
        raise DsrunError(f'invalid request: expected {{"nodes": N}} with N up to {MOST}')
    return nodes
