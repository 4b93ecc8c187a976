"""A worker that takes shards of data: the wire of `accelerator.data.ShardQueue`, simulated."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

from dsrun.accelerator.data import QUEUE_FD
from dsrun.accelerator.data.shard_table import ShardTable
from dsrun.launcher.common import system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SIZE, NAME = 10, "train"


class Over(Exception):
    """dsrun has closed the line."""


class Shards:
    """The shards of one worker."""

    def __init__(self, count: int, env: Mapping[bytes, bytes], pause: float) -> None:
        """Take from a queue of so many, and work for `pause` seconds on each."""
        self._count, self._pause = count, pause
        self._fd = int(env[QUEUE_FD.encode()].partition(b":")[0])

    def take_all(self, took: Callable[[int], None]) -> None:
        """Take shards until all are done; `took` is told each.

        Raises:
            Over: the line was closed before.
        """
        ours, theirs = system.socketpair(socket.SOCK_STREAM)
        line = system.socket(fileno=system.dup(self._fd))
        try:
            system.send_fds(line, [b"line"], [theirs.fileno()])
        except ConnectionError:
            raise Over from None
        theirs.close()
        self._stream = ours
        for epoch, number, start, stop in self._taken():
            took(number)
            system.sleep(self._pause)
            self._ask("done", epoch=epoch, number=number, upto=stop)
            del start
        ours.close()

    def _taken(self) -> Iterator[tuple[int, int, int, int]]:
        table = ShardTable(
            size=SIZE * self._count, shard=SIZE, seed=1, epochs=1, shuffle=True, growing=False
        )
        self._ask("open", spec=table.spec)
        while not (answer := self._ask("take", wait=True)).get("over"):
            yield answer["shard"]

    def _ask(self, what: str, **more: Any) -> dict[str, Any]:
        request = json.dumps({"queue": NAME, "ask": what, **more}).encode() + b"\n"
        try:
            answer: dict[str, Any] = json.loads(self._exchange(request))
        except ConnectionError:
            raise Over from None
        return answer

    def _exchange(self, request: bytes) -> bytes:
        self._stream.sendall(request)
        data = b""
        while not data.endswith(b"\n"):
            read = self._stream.recv(65536)
            if not read:
                raise ConnectionError
            data += read
        return data
