"""A server of local control that a test drives step by step, or that a client can wait for."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, local
from dsrun.launcher.features.jobs.runner_server import LocalServer

from .limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dsrun.launcher.features.jobs.runner_server import Verb

NOBODY = 65534

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")


def new_name() -> str:
    """Return a name that no other test uses."""
    return f"test-{os.urandom(4).hex()}"


class Served:
    """A server and its loop; a test lets the loop run, and speaks at plain sockets."""

    def __init__(
        self, verbs: Mapping[str, Verb], kind: str = local.JOB, loop: Loop | None = None
    ) -> None:
        self.kind, self.name = kind, new_name()
        self.loop = loop or Loop()
        self.logged: list[tuple[str, str]] = []
        self.server = LocalServer(self.loop, local.listener(kind, self.name), verbs, self._log)

    def _log(self, text: str, level: str) -> None:
        self.logged.append((level, text))

    def run(self, seconds: float = 0.0) -> None:
        """Let the loop do what there is to do."""
        for wait in (seconds, 0.0, 0.0):
            self.loop.call_later(wait, self.loop.stop)
            self.loop.run()

    def call(self) -> socket.socket:
        """Return a connection to the server."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(HANG)
        try:
            line.connect(f"\0{local.address(self.kind, self.name)}")
        except OSError:
            line.close()
            raise
        return line

    def serve(self, line: socket.socket, *sent: bytes) -> list[tuple[int, Any]]:
        """Send these bytes, and return what the server sends meanwhile."""
        for one in sent:
            line.sendall(one)
            self.run()
        return received(line)


def received(line: socket.socket) -> list[tuple[int, Any]]:
    """Return the frames that have arrived: (kind, message, or bytes of a chunk)."""
    decoder, got = frames.Decoder(), b""
    line.setblocking(False)
    try:
        while data := line.recv(1 << 20):
            got += data
    except (BlockingIOError, ConnectionResetError):
        pass
    finally:
        line.settimeout(HANG)
    return [
        (kind, body if kind == frames.CHUNK else frames.unpack_json(body))
        for kind, body in decoder.feed(got)
    ]


def ended(line: socket.socket) -> bool:
    """Return whether the server has ended a connection."""
    try:
        return line.recv(1 << 20) == b""
    except ConnectionResetError:
        return True


def request(**fields: object) -> bytes:
    """Return the frame of a request."""
    return frames.pack_json(frames.REQUEST, fields)


@contextmanager
def serving(verbs: Mapping[str, Verb], kind: str = local.JOB) -> Iterator[Served]:
    """Serve in a thread, for a client that blocks."""
    served = Served(verbs, kind)
    served.loop.open_to_threads()
    thread = threading.Thread(target=served.loop.run)
    thread.start()
    try:
        yield served
    finally:
        served.loop.call_soon_threadsafe(served.loop.stop)
        thread.join()
        served.server.close()
