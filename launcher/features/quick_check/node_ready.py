"""The program `ready` (`node.programs`): waits until servers answer, or a file exists.

It reads one line of JSON: `kind` (`port`, `http`, `file`, or `reach` for any answer of a machine),
`path`, and as `servers` the addresses at which each may be, and its port. For each of them it
prints which of its addresses have answered, as soon as one has; before that, why none does. It ends
once all have answered. Nothing goes through a proxy.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sys
from functools import partial

from ...common import system
from ...common.errors import USAGE, reason
from ...common.loop import Loop
from ...common.text import read_json
from .node_probes import Resolver, numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

LONGEST = 4 * 1024 * 1024
"""Bytes of the line that is read."""

PATIENCE = 10.0
"""Seconds for an address to answer before the next attempt."""

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.05
"""Seconds from one try of an address to the next; they grow."""

REFUSED_PAUSE = 0.5
"""Seconds between attempts where a server has answered with an error: it may log each request."""

OTHERS, BETTER = 0.05, 0.3
"""Seconds for the other addresses of a server to answer, once one has; and for those before it."""

TELL_AGAIN = 1.0
"""Seconds between two lines that say why a server does not answer."""

STATUS_LINE = 256
"""The first bytes of an answer, which must have the HTTP status."""

STATUS = re.compile(rb"HTTP/1\.[0-9] ([0-9]{3})(?![^ \r\n])")
"""The relevant beginning of an HTTP answer (RFC 9112, 4)."""


class Server:
    """A server that is waited for, with its addresses.

    Attributes:
        answered: the numbers of the addresses that have answered.
        done: whether the outcome was printed.
    """

    def __init__(self, number: int, loop: Loop, over: Callable[[], None]) -> None:
        self.answered: set[int] = set()
        self.done = False
        self._failed: set[int] = set()
        self._since = 0.0
        self._number, self._loop, self._over = number, loop, over
        self._why, self._told = "", float("-inf")

    def on_answer(self, address: int) -> None:
        """Note that an address has answered; others have a moment to do so as well."""
        if not self.answered:
            self._since = self._loop.clock()
        self.answered.add(address)
        self._loop.call_later(OTHERS, self._finish_if_best)
        self._loop.call_later(BETTER, self._finish_if_best)

    def _finish_if_best(self) -> None:
        """Finish, unless a preferred address may answer yet."""
        better = {*range(min(self.answered))} - self._failed
        if not self.done and (not better or self._loop.clock() - self._since >= BETTER):
            self._finish()

    def on_failure(self, address: int, why: str) -> None:
        """Report why an address does not answer, if the reason is new."""
        self._failed.add(address)
        now = self._loop.clock()
        if self.answered or why == self._why or now - self._told < TELL_AGAIN:
            return
        self._why, self._told = why, now
        _tell({"server": self._number, "why": why})

    def _finish(self) -> None:
        self.done = True
        _tell({"server": self._number, "answered": sorted(self.answered)})
        self._over()


class ServerTrial:
    """Tries one address again and again, until its server has answered."""

    def __init__(self, loop: Loop, server: Server, number: int, kind: str, path: str) -> None:
        """Try the address of this number of a server; `kind` and `path` are as in the request."""
        self._loop, self._server, self._number = loop, server, number
        self._kind, self._path = kind, path
        self._pause = FIRST_PAUSE
        self._socket: socket.socket | None = None
        self._where = ""

    def start(self, address: str, port: int) -> None:
        """Try it for the first time: a name is resolved each time, as it may become known."""
        self._where = f"{address}:{port}"
        self._again = partial(self._try, address, port)
        self._again()

    def _try(self, address: str, port: int) -> None:
        if self._server.done:
            return
        try:
            self._connect(*numeric(address, port))
        except socket.gaierror:
            self._resolve(address, port)
        except UnicodeError:
            self._fail("not a valid host name")

    def _resolve(self, address: str, port: int) -> None:
        try:
            Resolver(self._loop, address, port, self._resolved)
        except OSError as error:
            self._fail(reason(error))

    def _resolved(self, problem: str, family: int, target: tuple[Any, ...]) -> None:
        if problem:
            self._fail(problem)
        else:
            self._connect(family, target)

    def _connect(self, family: int, target: tuple[Any, ...]) -> None:
        try:
            one = system.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._fail(reason(error))
            return
        self._socket = one
        self._late = self._loop.call_later(PATIENCE, self._on_late)
        number = one.connect_ex(target)
        if number == errno.EINPROGRESS:
            self._loop.add_writer(one.fileno(), self._on_writable)
        else:
            self._on_connected(number)

    def _on_late(self) -> None:
        if self._server.done:
            self._close()  # an answer that has no end
        else:
            self._fail("no answer")

    def _on_writable(self) -> None:
        assert self._socket is not None
        self._loop.remove(self._socket.fileno())
        self._on_connected(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

    def _on_connected(self, number: int) -> None:
        reached = number == errno.ECONNREFUSED and self._kind == "reach"
        if number and not reached:
            self._fail(os.strerror(number).lower())
        elif self._kind == "http":
            self._ask()
        else:
            self._answer()

    def _ask(self) -> None:
        assert self._socket is not None
        head = f"GET {self._path} HTTP/1.1\r\nHost: {self._where}\r\n"
        try:
            self._socket.send(f"{head}User-Agent: dsrun\r\nConnection: close\r\n\r\n".encode())
        except OSError as error:
            self._fail(reason(error))
            return
        self._read = b""
        self._loop.add_reader(self._socket.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(STATUS_LINE)
        except OSError as error:
            self._fail(reason(error))
            return
        self._read += data
        line, end, _ = self._read.partition(b"\r\n")
        if data and not end and len(self._read) < STATUS_LINE:
            return
        said = STATUS.match(line)
        if said and said[1] == b"200":
            self._server.on_answer(self._number)
            self._loop.remove(self._socket.fileno())
            self._loop.add_reader(self._socket.fileno(), self._drain)
        else:
            shown = said[1].decode() if said else "something other than HTTP"
            self._pause = REFUSED_PAUSE
            self._fail(f"{self._path} answers {shown}")

    def _drain(self) -> None:
        """Read the rest, so that the server can write it."""
        assert self._socket is not None
        try:
            rest = self._socket.recv(LONGEST)
        except OSError:
            rest = b""
        if not rest:
            self._close()

    def _answer(self) -> None:
        self._close()
        self._server.on_answer(self._number)

    def _fail(self, why: str) -> None:
        self._close()
        self._server.on_failure(self._number, f"{self._where}: {why}")
        self._loop.call_later(self._pause, self._again)
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def _close(self) -> None:
        one, self._socket = self._socket, None
        if one is not None:
            self._late.cancel()
            self._loop.remove(one.fileno())
            one.close()


class PendingTrials:
    """All servers that are waited for."""

    def __init__(self, kind: str, path: str, servers: Sequence[tuple[Sequence[str], int]]) -> None:
        self._loop = Loop()
        self._left = len(servers) or 1
        for number, (addresses, port) in enumerate(servers):
            server = Server(number, self._loop, self._on_over)
            for at, address in enumerate(addresses):
                ServerTrial(self._loop, server, at, kind, path).start(address, port)
        if kind == "file":
            self._loop.call_later(0.0, lambda: self._poll(path, FIRST_PAUSE))

    def run(self) -> None:
        """Wait until all have answered."""
        self._loop.run()

    def _on_over(self) -> None:
        self._left -= 1
        if not self._left:
            self._loop.stop()

    def _poll(self, path: str, pause: float) -> None:
        if system.exists(path):
            _tell({"server": 0, "answered": []})
            self._on_over()
            return
        again = min(LONGEST_PAUSE, 2 * pause)
        self._loop.call_later(pause, lambda: self._poll(path, again))


def main(_arguments: Sequence[str]) -> int:
    """Wait; return the exit code."""
    try:
        asked = read_json(sys.stdin.buffer.readline(LONGEST))
        waiting = PendingTrials(asked["kind"], asked["path"], asked["servers"])
    except (ValueError, KeyError, TypeError) as error:
        sys.stderr.write(f"ready: expected a request as JSON: {error!r}\n")
        return USAGE
    waiting.run()
    return 0


def _tell(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()
