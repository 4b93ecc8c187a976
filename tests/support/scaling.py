"""A job that is asked for another size, and users who may not."""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import DsrunError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.head.elastic import scale_socket

if TYPE_CHECKING:
    from collections.abc import Iterator


NOBODY = "65534"


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")


def new_job() -> str:
    return f"20261122-010203-{os.urandom(3).hex()}"


class Asked:
    """A job that is asked: its loop, and the sizes that it was given."""

    def __init__(self) -> None:
        self.id = new_job()
        self.loop = Loop()
        self.listener = scale_socket.listener(self.id)
        self.sizes: list[int] = []
        scale_socket.ScaleSocket(self.loop, self.listener, self._resize)

    def _resize(self, nodes: int) -> str:
        if nodes > 4:
            raise DsrunError(f"not {nodes}")
        self.sizes.append(nodes)
        return f"now {nodes}"

    def run(self, seconds: float = 0.0) -> None:
        """Let the loop do what there is to do."""
        for wait in (seconds, 0.0):
            self.loop.call_later(wait, self.loop.stop)
            self.loop.run()

    def call(self) -> socket.socket:
        """Return a line to the job."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        line.settimeout(5)
        line.connect(f"\0{scale_socket.name(self.id)}")
        return line

    def answer(self, request: bytes) -> Any:
        """Return what somebody hears who asks this."""
        with self.call() as line:
            line.send(request)
            self.run()
            return json.loads(line.recv(scale_socket.LIMIT))


@pytest.fixture
def asked() -> Iterator[Asked]:
    job = Asked()
    with job.listener:
        yield job
