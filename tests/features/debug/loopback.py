"""What has arrived over loopback: a connect or a send may return before the other end sees it."""

from __future__ import annotations

import fcntl
import socket
import sys
import termios
from pathlib import Path

from ...support.limits import HANG, wait_for

LISTENS = "0A"


def waiting(port: int) -> int:
    """Return how many connections to a port of loopback wait to be accepted (proc(5), rx_queue)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    queues = [row[4] for row in rows if (row[1], row[3]) == (f"0100007F:{port:04X}", LISTENS)]
    return sum(int(queue.partition(":")[2], 16) for queue in queues)


def on_the_way(line: socket.socket) -> int:
    """Return how many bytes of what was sent, its end among them, have not arrived yet."""
    count = bytearray(4)
    fcntl.ioctl(line, termios.TIOCOUTQ, count)
    return int.from_bytes(count, sys.byteorder)


def connect(port: int) -> socket.socket:
    """Return a connection to a port of loopback that can be accepted now."""
    before = waiting(port)
    line = socket.create_connection(("127.0.0.1", port), HANG)
    wait_for(lambda: waiting(port) > before, "the connection to arrive")
    return line
