"""Where node launchers dial in: shakes hands, and hands over lines that proved themselves."""

from __future__ import annotations

import socket
import ssl

from .. import loop as loops
from ..addresses import any_address
from ..control import auth, frames, messages
from ..control.line import LineClosed
from ..control.tls import TlsLine

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    Verdict = Literal["yes", "no", "wait"]

PATIENCE = 5.0
"""Seconds for a caller to shake hands and say who it is."""

AT_ONCE = 512
"""Callers served before they have proved themselves; more wait in the kernel's queue."""


class Door:
    """Listens on the runner's addresses for one job's node launchers.

    Attributes:
        port: where it listens, the same on every address.
    """

    def __init__(
        self,
        loop: loops.Loop,
        context: ssl.SSLContext,
        addresses: Sequence[str],
        port: int,
        verify: Callable[[auth.Claim], Verdict],
        enter: Callable[[auth.Claim, TlsLine], None],
    ) -> None:
        """Listen; `enter` is given each line whose claim `verify` says yes to.

        Raises:
            OSError: an address is not this machine's, or the port is taken.
        """
        self._loop = loop
        self._context = context
        self._verify = verify
        self._enter = enter
        self._callers: dict[int, _Caller] = {}
        self._waiting: dict[str, list[_Caller]] = {}
        self._sockets: list[socket.socket] = []
        self.port = port
        for address in addresses:
            self._sockets.append(_listen(address, self.port))
            self.port = self._sockets[0].getsockname()[1]
        self._open()

    def recheck(self, node: str) -> None:
        """Ask `verify` again about the callers for a node that it told to wait."""
        for caller in self._waiting.pop(node, []):
            if self._callers.get(caller.fd) is caller:
                self._judge(caller)

    def close(self) -> None:
        """Stop listening and drop whoever has not entered."""
        for one in self._sockets:
            self._loop.unwatch(one.fileno())
            one.close()
        self._sockets.clear()
        for caller in list(self._callers.values()):
            self._drop(caller)

    def _open(self) -> None:
        for one in self._sockets:
            self._loop.watch(one.fileno(), loops.READ, _accepting(self._accept, one))

    def _accept(self, listener: socket.socket) -> None:
        if len(self._callers) >= AT_ONCE:
            for one in self._sockets:
                self._loop.unwatch(one.fileno())
            return
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setblocking(False)
        secure = self._context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        caller = _Caller(secure)
        self._callers[caller.fd] = caller
        caller.timer = self._loop.after(PATIENCE, lambda: self._drop(caller))
        self._loop.watch(caller.fd, loops.READ, lambda: self._shake(caller))

    def _shake(self, caller: _Caller) -> None:
        self._loop.unwatch(caller.fd, loops.WRITE)
        try:
            caller.socket.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._loop.watch(caller.fd, loops.WRITE, lambda: self._shake(caller))
            return
        except OSError:
            self._drop(caller)
            return
        caller.line = TlsLine(caller.socket)
        caller.line.limit(frames.AUTH_LIMIT)
        self._loop.watch(caller.fd, loops.READ, lambda: self._listen_to(caller))
        self._listen_to(caller)

    def _listen_to(self, caller: _Caller) -> None:
        assert caller.line is not None
        try:
            arrived = caller.line.receive()
            if not arrived:
                return
            (kind, body), *more = arrived
            if kind != frames.AUTH or more or caller.claim is not None:
                raise frames.BadFrame("expected AUTH")
            caller.claim = messages.unpack(auth.Claim, body)
        except (LineClosed, frames.BadFrame):
            self._drop(caller)
            return
        self._judge(caller)

    def _judge(self, caller: _Caller) -> None:
        assert caller.claim is not None
        assert caller.line is not None
        verdict = self._verify(caller.claim)
        if verdict == "wait":
            self._waiting.setdefault(caller.claim.node, []).append(caller)
            return
        if verdict == "no":
            self._drop(caller)
            return
        self._forget(caller)
        caller.line.limit(frames.FRAME_LIMIT)
        self._enter(caller.claim, caller.line)

    def _drop(self, caller: _Caller) -> None:
        self._forget(caller)
        caller.socket.close()

    def _forget(self, caller: _Caller) -> None:
        self._loop.unwatch(caller.fd)
        if caller.timer is not None:
            caller.timer.cancel()
        if self._callers.pop(caller.fd, None) and len(self._callers) == AT_ONCE - 1:
            self._open()


class _Caller:
    """Somebody at the door."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self.socket = connection
        self.fd = connection.fileno()
        self.line: TlsLine | None = None
        self.claim: auth.Claim | None = None
        self.timer: loops.Timer | None = None


def _accepting(accept: Callable[[socket.socket], None], one: socket.socket) -> loops.Callback:
    return lambda: accept(one)


def _listen(address: str, port: int) -> socket.socket:
    if not address:
        listener = any_address()
    else:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(4096)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener
