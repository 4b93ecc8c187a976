"""Messages between a node launcher, its preloader and the preloader's forks.

A message is one packet on a socket (SOCK_SEQPACKET), with descriptors. Its JSON is in a memory file
sent as the first of them: a message may have any length, and sending one never waits for
the receiver to read. The packet itself is the length in bytes, as decimal digits.

Only the standard library is used here: the Python of the workers runs this, too.
"""

from __future__ import annotations

import json
import os
import socket
from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST = 253
"""Descriptors that one packet can carry (SCM_MAX_FD in the kernel), the memory file included."""


def send(line: socket.socket, value: dict[str, Any], fds: Sequence[int] = ()) -> None:
    """Send a message with these descriptors; the receiver gets copies.

    Raises:
        OSError: the other end is closed, or there are too many descriptors.
    """
    text = json.dumps(value).encode()
    memory = os.memfd_create("message")
    try:
        with open(memory, "wb", closefd=False) as file:
            file.write(text)
        socket.send_fds(line, [b"%d" % len(text)], [memory, *fds])
    finally:
        os.close(memory)


def receive(line: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors (close-on-exec); None once the line has ended.

    Raises:
        BlockingIOError: there is no message yet, on a non-blocking socket.
        ValueError: a program has written something else there.
    """
    try:
        # recv_fds does not pass on its flags.
        room = socket.CMSG_SPACE(MOST * array("i").itemsize)
        data, control, _, _ = line.recvmsg(32, room, socket.MSG_CMSG_CLOEXEC)
    except ConnectionError:
        return None  # it was closed with an unread message
    if not data:
        return None
    memory, *fds = array("i", b"".join(one for _, _, one in control))
    try:
        value = json.loads(os.pread(memory, min(int(data), os.fstat(memory).st_size), 0))
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value, fds
    except (ValueError, OSError, RecursionError) as error:
        for fd in fds:
            os.close(fd)
        raise ValueError(f"no message: {error}") from None
    finally:
        os.close(memory)
