"""The process that writes the logs of one round, a fork of the node launcher.

A disk that does not answer puts a writer to sleep so deeply that not even SIGKILL ends it. This may
happen to this process, which has nothing else open, but must not happen to the node launcher.
"""

from __future__ import annotations

import gc
import json
import signal
import socket
import struct

from ...common import system
from ...common.errors import INTERNAL
from ...common.text import read_json
from ..machine import processes
from .output_pipes import BLOCK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn, TypeAlias

    from .logs import RankLog

    OpenLogs: TypeAlias = Callable[[Callable[[str], None]], Mapping[int, RankLog]]

HEAD = struct.Struct("!IB")
"""The header of each record: rank and stream."""

_ROOM = 1 << 20
"""Bytes of records that may be in flight; the kernel may allow less (socket(7))."""


def fork(open_logs: OpenLogs) -> tuple[int, socket.socket]:
    """Open logs in a child; return its pid, and a socket to it.

    The child first sends the outcome of opening, as `problem` reads it. Then it sends a line for
    each log that ends early. It writes records up to the end of the socket, and closes the logs.

    Raises:
        OSError: another process cannot be created, or no descriptor is left.
    """
    ours, theirs = system.socketpair(socket.SOCK_SEQPACKET)
    parent = system.getpid()
    try:
        with theirs:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)
            pid = system.fork(lambda: _become(open_logs, parent, theirs))
    except OSError:
        ours.close()
        raise
    ours.setblocking(False)
    return pid, ours


def problem(message: bytes) -> OSError | None:
    """Return the error of opening the logs, given the first message; None if they were opened."""
    found = read_json(message)
    return OSError(*found) if found else None


def _become(open_logs: OpenLogs, parent: int, line: socket.socket) -> NoReturn:
    """Turn the fork into the writer; never return."""
    gc.disable()  # collected objects of the node launcher would close new descriptors
    try:
        processes.die_with_parent(signal.SIGKILL)
        system.set_wakeup_fd(-1)
        if system.getppid() == parent:
            # The session ends only when no process holds its streams.
            processes.close_all_but(line.fileno())
            _serve(open_logs, line)
    finally:
        system.exit_now(INTERNAL)


def _serve(open_logs: OpenLogs, line: socket.socket) -> None:
    """Write records until the end of the line, then exit."""
    try:
        logs = open_logs(lambda text: _tell(line, text))
    except OSError as error:
        line.send(json.dumps([error.errno, error.strerror, error.filename]).encode())
        system.exit_now(0)
    line.send(json.dumps(None).encode())
    record = memoryview(bytearray(HEAD.size + BLOCK))
    while size := line.recv_into(record):
        rank, stream = HEAD.unpack_from(record)
        logs[rank].write(stream, record[HEAD.size : size])
    for log in logs.values():
        log.close()
    system.exit_now(0)


def _tell(line: socket.socket, text: str) -> None:
    line.send(text.encode("utf-8", "surrogateescape"))
