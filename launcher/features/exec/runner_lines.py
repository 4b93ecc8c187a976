"""Prints the output of hosts line by line as it arrives, for `--no_fold`."""

from __future__ import annotations

from functools import partial

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.output.console import Console
    from .runner_events import Transport

WINDOW = 4 << 20
"""Bytes that may wait to be printed; above it the hosts' output is not read."""


class HostLines:
    """The output of all hosts on the console.

    Attributes:
        receivers: the receiver of each host's and stream's output.
    """

    def __init__(self, console: Console, transport: Transport) -> None:
        self._console = console
        self._transport = transport
        self._waiting = 0
        for number, host in enumerate(transport.hosts):
            console.label(number, f"{host}| ", (1, 2))
        self.receivers = {
            (host, stream): _StreamLine(partial(self._print, number, stream))
            for number, host in enumerate(transport.hosts)
            for stream in (1, 2)
        }

    def _print(self, number: int, stream: int, data: bytes) -> None:
        self._waiting += len(data)
        if self._waiting > WINDOW:
            self._transport.pause(True)
        self._console.feed(number, stream, data, lambda: self._written(len(data)))

    def _written(self, size: int) -> None:
        full = self._waiting > WINDOW
        self._waiting -= size
        if full and self._waiting <= WINDOW:
            self._transport.pause(False)


class _StreamLine(NamedTuple):
    """One stream of one host."""

    add: Callable[[bytes], None]
