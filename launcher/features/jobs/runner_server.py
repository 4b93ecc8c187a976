"""Serves requests of commands on this machine: for a runner's job, or for a hold.

A caller is a connection of this user or of root. It may send several requests, and several at once.
Each is answered once, by its verb at once or later, and each answer carries the request's `id`.
Whatever a caller sends, it loses at most its own connection.
"""

from __future__ import annotations

# The C part of `socket`, as in control/local.
from _socket import SO_ACCEPTCONN, SOL_SOCKET
from contextlib import suppress

from ...common import system
from ...common.errors import INTERNAL, DsrunError, UsageError
from ...common.unexpected import unexpected
from ...control import frames, local
from ...control.connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _socket import socket
    from collections.abc import Callable, Container, Mapping
    from typing import Any, ParamSpec, TypeAlias

    from ...common.loop import Loop
    from ...common.unexpected import Log

    Message: TypeAlias = dict[str, Any]
    P = ParamSpec("P")
    Verb: TypeAlias = Callable[["LocalCaller", Message, list[int]], Message | None]

MOST_CALLERS = 64
"""Connections at a time."""

PATIENCE = 5.0
"""Seconds for a caller to send its first request."""

REST = 1.0
"""Seconds to wait after accept() has failed: without free descriptors it fails again at once."""


class LocalCaller:
    """One connection.

    Attributes:
        on_close: called once the connection has ended, from either end.
        asked: whether it has sent a request.
    """

    def __init__(
        self, loop: Loop, line: local.LocalStream, verbs: Mapping[str, Verb], log: Log
    ) -> None:
        self._log = log
        self._line = line
        self.verbs = verbs
        self._unanswered: list[object] = []
        self._written: list[Callable[[], None]] = []
        self.on_close: list[Callable[[], None]] = []
        self.asked = False
        handlers = {frames.REQUEST: self._on_request}
        self._connection = Connection(loop, line, handlers, lambda _: self._ended())
        self._connection.when_drained(self._drained)

    @property
    def open(self) -> bool:
        """True if the connection is open."""
        return self._connection.open

    @property
    def pending(self) -> int:
        """The number of bytes that wait for the client to read; beyond 128 MiB it is dropped."""
        return self._connection.pending

    def answer(self, message: Message, request: Message | None = None) -> None:
        """Answer a request: the given one, else the oldest without an answer; not twice."""
        self._answer({"ok": True, **message}, request)

    def refuse(self, error: DsrunError, request: Message | None = None) -> None:
        """Answer a request with an error; see `answer`."""
        self._answer({"ok": False, "error": str(error), "code": error.exit_code}, request)

    def bounded(self, call: Callable[P, object], request: Message) -> Callable[P, None]:
        """Return a function that makes a call on the way to an answer; its failure is the answer.

        Events of a run call such functions, and no request ends the loop of a runner.
        """

        def attempt(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                call(*args, **kwargs)
            except Exception as error:
                self._fail(error, request)

        return attempt

    def event(self, message: Message) -> None:
        """Send an event: a message with its type as `event`."""
        self._connection.send(frames.pack_json(frames.EVENT, message))

    def chunk(self, data: bytes, written: Callable[[], None] | None = None) -> None:
        """Send bytes; `written` is called when they wait no longer, if the client still reads."""
        self._connection.send(frames.pack(frames.CHUNK, data))
        if written is None or not self.open:
            return
        if self.pending:
            self._written.append(written)
        else:
            written()

    def close(self) -> None:
        """End the connection; what waits to be sent is dropped."""
        if self.open:
            self._connection.close()
            self._ended()

    def _answer(self, message: Message, request: Message | None) -> None:
        oldest = self._unanswered[0] if self._unanswered else None
        number = oldest if request is None else request.get("id")
        if number not in self._unanswered:
            return
        self._unanswered.remove(number)
        self._connection.send(frames.pack_json(frames.ANSWER, {**message, "id": number}))

    def _on_request(self, body: bytes) -> None:
        """Carry out a request.

        Raises:
            BadFrame: the body is no request; the connection is closed.
        """
        request = frames.unpack_json(body)
        count = request.get("fds", 0)
        if type(count) is not int or not 0 <= count <= local.MOST_FDS:
            raise frames.BadFrame("invalid number of descriptors")
        fds = self._line.take(count)
        self.asked = True
        self._unanswered.append(request.get("id"))
        try:
            answer = self._verb(request)(self, request, fds)
        except Exception as error:  # the boundary: no request ends the loop of a runner
            _close(fds)
            self._fail(error, request)
        else:
            if answer is not None:
                self.answer(answer, request)

    def _fail(self, error: Exception, request: Message) -> None:
        if isinstance(error, DsrunError):
            self.refuse(error, request)
        else:
            self._answer(_bug(unexpected(error, self._log)), request)

    def _verb(self, request: Message) -> Verb:
        name = request.get("do")
        verb = self.verbs.get(name) if isinstance(name, str) else None
        if verb is None:
            known = ", ".join(self.verbs)
            raise UsageError(f"invalid request {str(name)[:40]!r}: expected one of {known}")
        return verb

    def _drained(self) -> None:
        written, self._written = self._written, []
        for call in written:
            call()

    def _ended(self) -> None:
        self._written.clear()
        calls, self.on_close = self.on_close, []
        for call in calls:
            call()


def _unheard(_text: str, _level: str) -> None:
    """Print nothing."""


class LocalServer:
    """Serves callers until it is closed.

    A verb gets the caller, the request and its descriptors. It returns the answer, or None if
    `LocalCaller.answer` follows; a DsrunError that it raises is the answer as well. Once it has
    returned, the descriptors are its own to close; if it raises, they are closed here.
    """

    def __init__(
        self, loop: Loop, line: socket, verbs: Mapping[str, Verb], log: Log = _unheard
    ) -> None:
        """Serve the callers of a listening socket, or the one at the other end of a connected one.

        Args:
            loop: runs the verbs.
            line: made by `control/local.listener` or, connected, by socketpair(2); taken over.
            verbs: the verbs by the name that a request gives as `do`.
            log: prints a message, given its text and level.
        """
        self._log = log
        self._loop = loop
        self._verbs = verbs
        self.callers: dict[LocalCaller, None] = {}
        self._listener: socket | None = None
        if line.getsockopt(SOL_SOCKET, SO_ACCEPTCONN):
            self._listener = line
            self._listen()
        else:
            self._admit(line)

    def close(self, keep: Container[LocalCaller] = ()) -> None:
        """Stop listening, and end all connections except those of the callers in `keep`."""
        if self._listener is not None:
            self._loop.remove(self._listener.fileno())
            self._listener.close()
            self._listener = None
        for caller in tuple(self.callers):
            if caller not in keep:
                caller.close()

    def _listen(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener.fileno(), self._accept)

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            fd, _ = self._listener._accept()  # type: ignore[attr-defined]
        except BlockingIOError:
            return  # the caller has left
        except OSError:
            self._loop.remove(self._listener.fileno())
            self._loop.call_later(REST, self._listen)
            return
        line = system.plain_socket(fileno=fd)
        if len(self.callers) < MOST_CALLERS and local.trusted(line):
            caller = self._admit(line)
            self._loop.call_later(PATIENCE, lambda: None if caller.asked else caller.close())
        else:
            line.close()

    def _admit(self, line: socket) -> LocalCaller:
        caller = LocalCaller(self._loop, local.LocalStream(line), self._verbs, self._log)
        self.callers[caller] = None
        caller.on_close.append(lambda: self.callers.pop(caller, None))
        return caller


def _close(fds: list[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            system.close(fd)


def _bug(words: str) -> Message:
    return {"ok": False, "error": f"this is a bug in dsrun: {words}", "code": INTERNAL}
