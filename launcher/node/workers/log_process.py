"""The process that writes the logs of one round: a fork of the node launcher.

A disk that does not answer puts whoever writes to it into a sleep that not even SIGKILL ends. That
may be this process, which has nothing else open, but not the node launcher.
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
"""What each record begins with: rank and stream."""

_ROOM = 1 << 20
"""Bytes of records that may be on their way; the kernel may allow less (socket(7))."""


def fork(open_logs: OpenLogs) -> tuple[int, socket.socket]:
    """Open logs in a child; return its pid, and a socket to it.

    The child sends `opened` or why not, as `problem` reads it, and then a line for each log that
    ends early, until it has written all records up to the end of the socket, and closed the logs.

    Raises:
        OSError: there is no room for another process, or no descriptor left.
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
    """Return why the logs could not be opened, given the first message."""
    found = read_json(message)
    return OSError(*found) if found else None


def _become(open_logs: OpenLogs, parent: int, line: socket.socket) -> NoReturn:
    """Turn the fork into the writer; never returns."""
    gc.disable()  # objects of the node launcher would close descriptors that are new here
    try:
        processes.die_with_parent(signal.SIGKILL)
        system.set_wakeup_fd(-1)
        if system.getppid() == parent:
            # A session ends when nobody has its streams.
            processes.close_all_but(line.fileno())
            _serve(open_logs, line)
    finally:
        system.exit_now(INTERNAL)


def _serve(open_logs: OpenLogs, line: socket.socket) -> None:
    """Write records until the end of the line; exits."""
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
