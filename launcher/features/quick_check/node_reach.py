"""REACH: tries whether other nodes are at their presumed addresses, and accepts their attempts.

An answer at an address does not prove that it comes from the other node: each machine may have
this address for itself, as with docker0. A dialled node therefore proves its identity.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from functools import partial

from ...common import system
from ...common.errors import reason
from ...common.network import any_address
from ...control.reach_messages import Dial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Loop

SECONDS = 2.0
"""Seconds for all nodes of a request to answer."""

HALF = 16
"""Characters of a token that the caller sends; the other half is the answer."""

MOST_CALLERS = 64
"""Maximum number of open connections; the oldest is closed above that."""

BACKLOG = 1024
"""Length of the queue of callers: in a large job many nodes dial one at once."""

NO_ANSWER = "no answer"
OTHER = "another machine has that address"


class IdentityListener:
    """Listens on all addresses of this node, and proves the node's identity to callers.

    Attributes:
        token: the token; callers must know its first half.
        port: the port on which this node listens.
    """

    def __init__(self, loop: Loop) -> None:
        """Open a listener on any free port.

        Raises:
            OSError: the listener cannot be opened.
        """
        self.token = system.urandom(HALF).hex()
        self._loop = loop
        self._callers: dict[int, socket.socket] = {}
        self._listener = any_address()
        try:
            self._listener.bind(("", 0))
            self._listener.listen(BACKLOG)
        except OSError:
            self._listener.close()
            raise
        self._listener.setblocking(False)
        self.port = int(self._listener.getsockname()[1])
        loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Stop listening; a second call does nothing."""
        if self._listener.fileno() >= 0:
            self._loop.remove(self._listener.fileno())
            self._listener.close()
        while self._callers:
            self._close_caller(next(iter(self._callers)))

    def _accept(self) -> None:
        try:
            caller, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:
            self.close()  # no descriptors: better not to be reached than to try forever
            return
        caller.setblocking(False)
        if len(self._callers) >= MOST_CALLERS:
            self._close_caller(next(iter(self._callers)))
        self._callers[caller.fileno()] = caller
        self._loop.add_reader(caller.fileno(), partial(self._answer, caller, bytearray()))

    def _answer(self, caller: socket.socket, said: bytearray) -> None:
        if not _is_whole(caller, said):
            return
        with suppress(OSError):
            if said == self.token[:HALF].encode():
                caller.send(self.token[HALF:].encode())
        self._close_caller(caller.fileno())

    def _close_caller(self, fd: int) -> None:
        self._loop.remove(fd)
        self._callers.pop(fd).close()


def _is_whole(line: socket.socket, said: bytearray) -> bool:
    """Read more of one half of a token; return whether it is complete, or the line has ended."""
    try:
        data = line.recv(HALF - len(said))
    except BlockingIOError:  # the event was of a descriptor that had this number before
        return False
    except OSError:
        return True
    said += data
    return not data or len(said) == HALF


class Dials:
    """Dials several addresses at once, and identifies the nodes behind them."""

    def __init__(
        self, loop: Loop, dials: Sequence[Dial], ended: Callable[[tuple[str, ...]], None]
    ) -> None:
        """Start; `ended` is called once with a verdict for each: "" or the problem."""
        self._loop = loop
        self._dials = dials
        self._ended = ended
        self._verdicts = [NO_ANSWER] * len(dials)
        self._open: dict[int, socket.socket] = {}
        self._timer = loop.call_later(SECONDS, self._finish)
        for at in range(len(dials)):
            self._dial(at)
        if not self._open:
            self._timer.cancel()
            self._timer = loop.call_later(0.0, self._finish)

    def close(self) -> None:
        """Close all connections without calling `ended`."""
        self._timer.cancel()
        for one in self._open.values():
            self._loop.remove(one.fileno())
            one.close()
        self._open = {}

    def _dial(self, at: int) -> None:
        address, port, _ = self._dials[at]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            socket.inet_pton(family, address)
            one = system.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError as error:
            self._verdicts[at] = reason(error)
            return
        number = one.connect_ex((address, port))
        if number not in {0, errno.EINPROGRESS}:
            self._verdicts[at] = os.strerror(number).lower()
            one.close()
            return
        self._open[at] = one
        self._loop.add_writer(one.fileno(), lambda: self._connected(at, one))

    def _connected(self, at: int, one: socket.socket) -> None:
        self._loop.remove_writer(one.fileno())
        number = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if number:
            self._record(at, os.strerror(number).lower())
            return
        self._loop.add_reader(one.fileno(), partial(self._answered, at, one, bytearray()))
        with suppress(OSError):  # then there is something to read
            one.send(self._dials[at].token[:HALF].encode())

    def _answered(self, at: int, one: socket.socket, said: bytearray) -> None:
        if _is_whole(one, said):
            self._record(at, "" if said == self._dials[at].token[HALF:].encode() else OTHER)

    def _record(self, at: int, verdict: str) -> None:
        self._verdicts[at] = verdict
        one = self._open.pop(at)
        self._loop.remove(one.fileno())
        one.close()
        if not self._open:
            self._finish()

    def _finish(self) -> None:
        self.close()
        self._ended(tuple(self._verdicts))
