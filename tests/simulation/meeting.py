"""Workers that meet at MASTER_PORT, as those of torch do: rank 0 listens, the others say hello."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from typing import TYPE_CHECKING

from dsrun.launcher.common import system

if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST = 100.0
"""Seconds for which a worker waits for others, as a watchdog of torch does."""

AGAIN = 0.1
"""Seconds until the next attempt to connect."""

HELLO = struct.Struct("!I")


class PeerLost(Exception):
    """A worker does not hear of another one any more."""


class Meeting:
    """The connections of one worker."""

    def __init__(self, env: Mapping[bytes, bytes]) -> None:
        """Know the others from the environment."""
        self._rank, self._size = int(env[b"RANK"]), int(env[b"WORLD_SIZE"])
        self._place = env[b"MASTER_ADDR"].decode(), int(env[b"MASTER_PORT"])
        self._lines: list[int] = []

    def begin(self) -> None:
        """Meet all others.

        Raises:
            PeerLost: somebody does not come.
        """
        if self._rank == 0:
            self._welcome()
        else:
            self._lines = [self._connect()]
            self._put(self._lines[0], HELLO.pack(self._rank))
        self.wait()

    def wait(self) -> None:
        """Wait until all are here.

        Raises:
            PeerLost: somebody does not come.
        """
        if self._rank == 0:
            for line in self._lines:
                self._get(line, 1)
        for line in self._lines:
            self._put(line, b".")
        if self._rank != 0:
            self._get(self._lines[0], 1)

    def _welcome(self) -> None:
        listener = system.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", self._place[1]))
        listener.listen(self._size)
        found: dict[int, int] = {}
        while len(found) < self._size - 1:
            _await(listener.fileno(), select.POLLIN)
            line = listener.accept()[0].detach()
            (rank,) = HELLO.unpack(self._get(line, HELLO.size))
            if rank in found or not 0 < rank < self._size:
                raise PeerLost(f"rank {rank} came twice, or is none")
            found[rank] = line
        self._lines = [found[rank] for rank in sorted(found)]

    def _connect(self) -> int:
        until = system.monotonic() + LONGEST
        while system.monotonic() < until:
            family, address = system.resolve(*self._place)[0]
            line = system.socket(family, socket.SOCK_STREAM)
            line.setblocking(False)
            try:
                line.connect(address)
            except OSError as begun:
                if begun.errno != errno.EINPROGRESS:
                    raise
            _await(line.fileno(), select.POLLOUT)
            if not line.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                line.setblocking(True)
                return line.detach()
            line.close()
            system.sleep(AGAIN)
        raise PeerLost("nobody listens")

    @staticmethod
    def _get(line: int, size: int) -> bytes:
        data = b""
        while len(data) < size:
            _await(line, select.POLLIN)
            try:
                read = system.read(line, size - len(data))
            except OSError as error:
                raise PeerLost(os.strerror(error.errno or 0)) from None
            if not read:
                raise PeerLost("connection closed by peer")
            data += read
        return data

    @staticmethod
    def _put(line: int, data: bytes) -> None:
        try:
            system.write(line, data)
        except OSError as error:
            raise PeerLost(os.strerror(error.errno or 0)) from None


def _await(fd: int, events: int) -> None:
    """Wait for a descriptor.

    Raises:
        PeerLost: nothing happens.
    """
    poll = system.poll()
    poll.register(fd, events)
    if not poll.poll(LONGEST * 1000):
        raise PeerLost("timed out")
