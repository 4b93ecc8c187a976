"""The port that node launchers dial: TLS handshake, authentication, hand-over.

Anybody may be at the other end. An unauthenticated caller can only lose its connection.
"""

from __future__ import annotations

import socket
import ssl

from ...common import loop as loops
from ...common.network import any_address
from ...common.unexpected import unexpected
from ...control import auth, frames, messages
from ...control.stream import StreamClosed
from ...control.tls import TlsStream
from .callers import PLACES, Caller, Callers, Stage, source_of
from .packages import Packages
from .rejections import NO_PROOF, Rejected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from ...common.unexpected import Log

    class Verifier(Protocol):
        """Authenticates callers: see `authentication`."""

        @property
        def complete(self) -> bool:
            """True if no more nodes can connect."""

        def verify(self, credentials: auth.Credentials) -> bool:
            """Return whether a caller is authenticated; False while that is not known yet.

            Raises:
                Rejected: the caller is not authenticated.
            """

        def admit(self, credentials: auth.Credentials, line: TlsStream) -> None:
            """Take over the connection of an authenticated caller."""


PATIENCE = 5.0
"""Seconds for a caller to complete the handshake and authenticate."""

PAUSE = 0.1
"""Seconds without accepting connections after the process has run out of descriptors."""


class Listener:
    """Listens on the runner's addresses for the node launchers of one job.

    Attributes:
        port: the port, equal for all addresses.
    """

    def __init__(
        self,
        loop: loops.Loop,
        context: ssl.SSLContext,
        addresses: Sequence[str],
        port: int,
        verifier: Verifier,
        on_rejected: Callable[[str, str], None],
        log: Log,
    ) -> None:
        """Listen.

        Args:
            loop: the event loop.
            context: the TLS context, with the certificate.
            addresses: addresses of this machine; "" for all.
            port: the port on every address, 0 for a free one.
            verifier: authenticates callers, and takes over their connections.
            on_rejected: called for every rejected caller with its source and the reason.
            log: prints a message, given its text and level.

        Raises:
            OSError: an address is not this machine's, or the port is taken.
        """
        self._loop = loop
        self._context = context
        self._verifier = verifier
        self._on_rejected = on_rejected
        self._log = log
        self._callers = Callers()
        self._packages = Packages(loop, self._serve, self._close_caller)
        self._sockets: list[socket.socket] = []
        self.port = port
        for address in addresses:
            self._sockets.append(_listen(address, self.port))
            self.port = self._sockets[0].getsockname()[1]
        self._resume()

    def recheck(self, node: str) -> None:
        """Verify the callers again that claim to be this node."""
        for caller in self._callers.waiting(node):
            self._serve(caller, self._verify)

    def close(self) -> None:
        """Stop listening, and drop callers that are not authenticated; may be called twice."""
        self._pause()
        for one in self._sockets:
            one.close()
        self._sockets.clear()
        for caller in self._callers.all():
            self._close_caller(caller)

    def _resume(self) -> None:
        for one in self._sockets:
            self._loop.add_reader(one.fileno(), _accepting(self._accept, one))

    def _pause(self) -> None:
        for one in self._sockets:
            self._loop.remove(one.fileno())

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # disconnected already
        except OSError:
            # No descriptors or memory left: a waiting connection would wake the loop repeatedly.
            self._make_room()
            self._pause()
            self._loop.call_later(PAUSE, self._resume)
            return
        if len(self._callers) >= PLACES:
            self._make_room()
        connection.setblocking(False)
        caller = Caller(connection, source_of(address[0]))
        self._callers.add(caller)
        caller.timer = self._loop.call_later(PATIENCE, lambda: self._reject(caller, NO_PROOF))
        self._loop.add_reader(caller.fd, self._serving(caller))

    def _serving(self, caller: Caller) -> loops.Callback:
        return lambda: self._serve(caller, self._receive)

    def _make_room(self) -> None:
        if len(self._callers):
            self._reject(self._callers.next_to_go(), NO_PROOF)

    def _serve(self, caller: Caller, step: Callable[[Caller], bool]) -> None:
        """Take the next step with a caller; any failure only rejects that caller.

        This is a boundary: no error of an unauthenticated caller may reach the loop. Sockets,
        OpenSSL and parsers fail in more ways than can be listed.
        """
        if caller not in self._callers:
            return
        try:
            verified = step(caller)
        except Rejected as error:
            self._reject(caller, str(error))
        except (OSError, StreamClosed, frames.BadFrame):
            self._reject(caller, NO_PROOF)
        except Exception as error:
            self._reject(caller, unexpected(error, self._log))
        else:
            if verified:
                self._admit(caller)

    def _receive(self, caller: Caller) -> bool:
        """Read data from a caller; return whether the caller is authenticated.

        Raises:
            OSError, StreamClosed, BadFrame: the caller has disconnected, or sends something else.
            Rejected: the credentials are invalid.
        """
        if caller.line is None and not self._handshake(caller):
            return False
        assert caller.line is not None
        arrived = caller.line.receive()
        if not arrived:
            return False
        (kind, body), *more = arrived
        if kind == frames.PACKAGE_ASK and not more and self._packages.expects(caller, body):
            caller.stage = Stage.IDENTIFIED
            self._packages.add(caller)
            return False
        if kind != frames.AUTH or more or caller.credentials is not None:
            raise frames.BadFrame("expected AUTH")
        caller.credentials = messages.unpack(auth.Credentials, body)
        caller.stage = Stage.IDENTIFIED
        return self._verify(caller)

    def _handshake(self, caller: Caller) -> bool:
        self._loop.remove_writer(caller.fd)
        if not isinstance(caller.socket, ssl.SSLSocket):
            caller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller.socket = self._context.wrap_socket(
                caller.socket, server_side=True, do_handshake_on_connect=False
            )
        try:
            caller.socket.do_handshake()
        except ssl.SSLWantReadError:
            # A cipher is chosen once a whole TLS hello has arrived; half of one is no progress.
            caller.stage = Stage.HANDSHAKE if caller.socket.cipher() else caller.stage
            return False
        except ssl.SSLWantWriteError:
            self._loop.add_writer(caller.fd, self._serving(caller))
            return False
        caller.line = TlsStream(caller.socket)
        caller.line.limit(frames.AUTH_LIMIT)
        return True

    def _verify(self, caller: Caller) -> bool:
        assert caller.credentials is not None
        return self._verifier.verify(caller.credentials)

    def _admit(self, caller: Caller) -> None:
        assert caller.credentials is not None
        assert caller.line is not None
        self._remove(caller)
        caller.line.limit(frames.NODE_LIMIT)
        self._verifier.admit(caller.credentials, caller.line)
        if self._verifier.complete:
            self.close()

    def _reject(self, caller: Caller, reason: str) -> None:
        asked = caller in self._packages
        self._close_caller(caller)
        if not asked:
            self._on_rejected(caller.source, reason)

    def _close_caller(self, caller: Caller) -> None:
        self._remove(caller)
        caller.socket.close()

    def _remove(self, caller: Caller) -> None:
        self._loop.remove(caller.fd)
        if caller.timer is not None:
            caller.timer.cancel()
        self._callers.remove(caller)
        self._packages.remove(caller)


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
