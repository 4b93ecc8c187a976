"""The client's end of local control: asks a runner or a hold on this machine."""

from __future__ import annotations

import re
import time
from _socket import AF_UNIX, SOCK_STREAM, socket

from ..common.errors import (
    INTERNAL,
    LOST,
    NODE_UNUSABLE,
    USAGE,
    DsrunError,
    LostError,
    NodeError,
    UsageError,
)
from ..common.poll import WRITE, ready
from ..common.records import NamedTuple
from . import frames, local
from .stream import StreamClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TypeAlias

    Message: TypeAlias = dict[str, Any]

PATIENCE = 5.0
"""Seconds to get through to a socket that is busy."""

UNREAD = 30.0
"""Seconds for a server to read some of a large request; nothing can interrupt this wait."""

LOOK = 1.0
"""Seconds to connect to all listed sockets; any user can create any number of them."""

PAUSE = 0.02
"""Seconds between two attempts to connect to a socket that is busy."""

LISTENS = 0x10000
"""Flag of a listening socket in /proc/net/unix (__SO_ACCEPTCON of linux/net.h)."""

_ERRORS = {USAGE: UsageError, NODE_UNUSABLE: NodeError, LOST: LostError}


class ArrivedFrame(NamedTuple):
    """A frame from the server.

    Attributes:
        kind: ANSWER, EVENT or CHUNK of `control/frames`.
        message: the content of an answer or an event; empty for a chunk.
        data: the content of a chunk; empty otherwise.
    """

    kind: int
    message: Message
    data: bytes = b""


class LocalClient:
    """A connection to a runner or a hold; blocking, except for `receive`.

    Attributes:
        pid: the pid of the process at the other end; 0 if it has none here.
        common: fields of all requests.
    """

    def __init__(self, line: socket) -> None:
        self.pid = local.pid_behind(line)
        self.common: Message = {}
        self._line = local.LocalStream(line)
        self._arrived: list[ArrivedFrame] = []
        self._count = 0

    def __enter__(self) -> LocalClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; may be called twice."""
        self._line.close()

    def fileno(self) -> int:
        """Return the descriptor to wait for before `receive`."""
        return self._line.read_fd

    def send(self, message: Message, fds: Sequence[int] = ()) -> int:
        """Send a request with descriptors, and return its number: `id` in its answer.

        Raises:
            LostError: the server is gone, or has not read for `UNREAD` seconds.
        """
        self._count += 1
        request = {
            **self.common,
            **message,
            "id": self._count,
            **({"fds": len(fds)} if fds else {}),
        }
        try:
            self._line.send_with(frames.pack_json(frames.REQUEST, request), fds)
            while self._line.pending:
                if not ready([self.fileno()], UNREAD, WRITE):
                    raise LostError("no answer: the request was not read")
                self._line.flush()
        except StreamClosed as closed:
            raise LostError(f"no answer: the connection was closed ({closed})") from None
        return self._count

    def ask(
        self, message: Message, fds: Sequence[int] = (), seconds: float | None = None
    ) -> Message:
        """Send a request, wait for its answer and return it; other frames are kept.

        Raises:
            DsrunError: the answer is an error; the class and the exit code are the server's.
            LostError: the server is gone, or does not answer in time.
        """
        return self.answer(self.send(message, fds), seconds)

    def ready(self, seconds: float) -> bool:
        """Return whether, within this time, a frame has arrived or the server is gone."""
        return bool(self._arrived) or bool(ready([self.fileno()], seconds))

    def answer(self, number: int, seconds: float | None = None) -> Message:
        """Wait for the answer of a request that was sent, and return it; raises as `ask`."""
        kept: list[ArrivedFrame] = []
        try:
            for one in self.frames(seconds):
                if one.kind == frames.ANSWER and one.message.get("id") == number:
                    return checked(one.message)
                kept.append(one)
        finally:
            self._arrived[:0] = kept
        raise LostError("no answer: the connection was closed")

    def frames(self, seconds: float | None = None) -> Iterator[ArrivedFrame]:
        """Yield frames until the server ends the connection, or for this number of seconds.

        Raises:
            LostError: no further frame has arrived in time, or it is invalid.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            while self._arrived:
                yield self._arrived.pop(0)
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not ready([self.fileno()], left):
                raise LostError(f"no answer within {seconds:g} s")
            arrived = self.receive()
            if arrived is None:
                return
            self._arrived += arrived

    def receive(self) -> list[ArrivedFrame] | None:
        """Return the frames received so far, without waiting; None after the end of the server.

        Raises:
            LostError: invalid data was received.
        """
        kept, self._arrived = self._arrived, []
        try:
            return [*kept, *(_arrived(kind, body) for kind, body in self._line.receive())]
        except frames.BadFrame as error:
            raise LostError(f"invalid answer: {error}") from None
        except StreamClosed:
            return kept or None


def checked(answer: Message) -> Message:
    """Return an answer, or raise the error in it.

    Raises:
        DsrunError: the answer is an error; class and exit code are the server's.
    """
    if answer.get("ok") is True:
        return answer
    code = answer.get("code")
    code = code if type(code) is int and 0 < code < 256 else INTERNAL
    error = _ERRORS.get(code, DsrunError)(str(answer.get("error", "refused without a reason")))
    error.exit_code = code
    raise error


def connect(kind: str, name: str, seconds: float = PATIENCE) -> LocalClient | None:
    """Connect to a runner or a hold of this user; return None if it does not run."""
    if not local.is_name(name):
        return None
    found = _connect_all(kind, [name], seconds)
    return LocalClient(found[name]) if found else None


def running(kind: str) -> list[str]:
    """Return the names of this user's runners or holds on this machine, in order."""
    with open("/proc/net/unix", encoding="ascii", errors="replace", newline="\n") as file:
        names = listening(file, kind)
    lines = _connect_all(kind, sorted(names), LOOK)
    for line in lines.values():
        line.close()
    return sorted(lines)


def listening(table: Iterable[str], kind: str) -> set[str]:
    """Return the names of listening sockets of this kind, from the lines of /proc/net/unix. Pure.

    Names may have line feeds, and anybody can forge lines with these: invalid rows are ignored.
    Source: proc_net(5); an abstract name is shown after an `@`.
    """
    name = rf"@{re.escape(local.address(kind))}({local.NAME})"
    row = re.compile(rf"\S+: [0-9A-F]{{8}} [0-9A-F]{{8}} ([0-9A-F]{{8}}) \S+ \S+ +\d+ {name}\n?")
    found = [match for line in table if (match := row.fullmatch(line))]
    return {match[2] for match in found if int(match[1], 16) & LISTENS}


def _connect_all(kind: str, names: Sequence[str], seconds: float) -> dict[str, socket]:
    """Connect to the sockets that belong to this user; try again at a full backlog."""
    deadline, found = time.monotonic() + seconds, {}
    while True:
        busy = []
        for name in names:
            try:
                line = _connect(local.address(kind, name))
            except BlockingIOError:
                busy.append(name)
                continue
            if line is not None:
                found[name] = line
        if not busy or time.monotonic() > deadline:
            return found
        names = busy
        time.sleep(PAUSE)


def _connect(address: str) -> socket | None:
    """Connect to a socket; return None if nobody listens there, or another user does.

    Raises:
        BlockingIOError: its backlog is full.
    """
    line = socket(AF_UNIX, SOCK_STREAM)
    line.setblocking(False)
    try:
        line.connect(f"\0{address}")
        if local.trusted(line):
            return line
    except BlockingIOError:
        line.close()
        raise
    except OSError:
        pass
    line.close()
    return None


def _arrived(kind: int, body: bytes) -> ArrivedFrame:
    if kind == frames.CHUNK:
        return ArrivedFrame(kind, {}, body)
    if kind not in {frames.ANSWER, frames.EVENT}:
        raise frames.BadFrame(f"unexpected kind {kind}")
    return ArrivedFrame(kind, frames.unpack_json(body))
