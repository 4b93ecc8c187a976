"""Where node launchers dial in: shakes hands, and hands over lines that proved themselves.

Anybody may be at the other end. Whatever a caller without proof sends, does or leaves undone costs
that caller its connection, and nothing else.
"""

from __future__ import annotations

import socket
import ssl

from ...common import loop as loops
from ...common.network import any_address
from ...control import auth, frames, messages
from ...control.line import LineClosed
from ...control.tls import TlsLine
from .callers import KNOWN, PLACES, SHAKING, Caller, Callers, source_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    Verdict: TypeAlias = str
    """YES, WAIT, or why not."""

    Step: TypeAlias = Callable[[Caller], Verdict]

YES, WAIT = "yes", "wait"
NO_PROOF = "no proof"

PATIENCE = 5.0
"""Seconds for a caller to shake hands and say who it is."""

REST = 0.1
"""Seconds without accepting anybody once there are no descriptors left."""


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
        rejected: Callable[[str, str], None],
    ) -> None:
        """Listen.

        Args:
            loop: what it runs on.
            context: the certificate.
            addresses: of this machine, "" for all.
            port: on all of them, 0 for a free one.
            verify: says what to do with a claim; "yes", "wait", or why it is rejected.
            enter: is given each line whose claim it says yes to.
            rejected: is told of every other caller: from where, and why.

        Raises:
            OSError: an address is not this machine's, or the port is taken.
        """
        self._loop = loop
        self._context = context
        self._verify = verify
        self._enter = enter
        self._rejected = rejected
        self._callers = Callers()
        self._sockets: list[socket.socket] = []
        self.port = port
        for address in addresses:
            self._sockets.append(_listen(address, self.port))
            self.port = self._sockets[0].getsockname()[1]
        self._open()

    def recheck(self, node: str) -> None:
        """Ask `verify` again about the callers for a node that it told to wait."""
        for caller in self._callers.waiting(node):
            self._serve(caller, self._judge)

    def close(self) -> None:
        """Stop listening and drop whoever has not entered."""
        self._shut()
        for one in self._sockets:
            one.close()
        self._sockets.clear()
        for caller in self._callers.all():
            self._drop(caller)

    def _open(self) -> None:
        for one in self._sockets:
            self._loop.watch(one.fileno(), loops.READ, _accepting(self._accept, one))

    def _shut(self) -> None:
        for one in self._sockets:
            self._loop.unwatch(one.fileno())

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, address = listener.accept()
        except (BlockingIOError, ConnectionError):
            return  # gone again
        except OSError:
            # No descriptors, no memory: whoever waits would wake the loop again and again.
            self._make_room()
            self._shut()
            self._loop.after(REST, self._open)
            return
        if len(self._callers) >= PLACES:
            self._make_room()
        connection.setblocking(False)
        caller = Caller(connection, source_of(address[0]))
        self._callers.add(caller)
        caller.timer = self._loop.after(PATIENCE, lambda: self._reject(caller, NO_PROOF))
        self._loop.watch(caller.fd, loops.READ, self._hearing(caller))

    def _hearing(self, caller: Caller) -> loops.Callback:
        return lambda: self._serve(caller, self._hear)

    def _make_room(self) -> None:
        if len(self._callers):
            self._reject(self._callers.next_to_go(), NO_PROOF)

    def _serve(self, caller: Caller, step: Step) -> None:
        """Go a step further with a caller; whatever comes of that is the caller's loss alone.

        This is the one place that catches everything: sockets, OpenSSL and parsers fail in more
        ways than can be listed when the other end means them to, and nothing that somebody without
        proof does may reach the loop. Our own faults show in what is told of the rejection.
        """
        if caller not in self._callers:
            return
        try:
            verdict = step(caller)
        except (OSError, LineClosed, frames.BadFrame):
            verdict = NO_PROOF
        except Exception as error:
            verdict = f"{type(error).__name__}: {error}"
        if verdict == YES:
            self._admit(caller)
        elif verdict != WAIT:
            self._reject(caller, verdict)

    def _hear(self, caller: Caller) -> Verdict:
        """Take in what a caller has sent.

        Raises:
            OSError, LineClosed, BadFrame: it is gone, or sends something else.
        """
        if caller.line is None and not self._shake(caller):
            return WAIT
        assert caller.line is not None
        arrived = caller.line.receive()
        if not arrived:
            return WAIT
        (kind, body), *more = arrived
        if kind != frames.AUTH or more or caller.claim is not None:
            raise frames.BadFrame("expected AUTH")
        caller.claim = messages.unpack(auth.Claim, body)
        caller.stage = KNOWN
        return self._judge(caller)

    def _shake(self, caller: Caller) -> bool:
        """Go on with the handshake; tell whether it is done."""
        self._loop.unwatch(caller.fd, loops.WRITE)
        if not isinstance(caller.socket, ssl.SSLSocket):
            caller.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller.socket = self._context.wrap_socket(
                caller.socket, server_side=True, do_handshake_on_connect=False
            )
        try:
            caller.socket.do_handshake()
        except ssl.SSLWantReadError:
            # A cipher is chosen once a whole TLS hello has come; half a hello is no progress.
            caller.stage = SHAKING if caller.socket.cipher() else caller.stage
            return False
        except ssl.SSLWantWriteError:
            self._loop.watch(caller.fd, loops.WRITE, self._hearing(caller))
            return False
        caller.line = TlsLine(caller.socket)
        caller.line.limit(frames.AUTH_LIMIT)
        return True

    def _judge(self, caller: Caller) -> Verdict:
        assert caller.claim is not None
        return self._verify(caller.claim)

    def _admit(self, caller: Caller) -> None:
        assert caller.claim is not None
        assert caller.line is not None
        self._forget(caller)
        caller.line.limit(frames.NODE_LIMIT)
        self._enter(caller.claim, caller.line)

    def _reject(self, caller: Caller, reason: str) -> None:
        self._drop(caller)
        self._rejected(caller.source, reason)

    def _drop(self, caller: Caller) -> None:
        self._forget(caller)
        caller.socket.close()

    def _forget(self, caller: Caller) -> None:
        self._loop.unwatch(caller.fd)
        if caller.timer is not None:
            caller.timer.cancel()
        self._callers.remove(caller)


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
