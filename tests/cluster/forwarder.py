"""Carries packets between two TAP devices, and delays or loses them: the process of `cable.py`.

Its arguments are the name, the address and the file of the network namespace of each device. It
reads what it does as lines of JSON, and ends when its input does; the devices end with it.
(TUN/TAP: Documentation/networking/tuntap.rst of the kernel.)
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import random
import selectors
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000

QUEUE = "20000"
"""Packets that wait for this process, so that none is lost by chance."""


class Direction:
    """One direction of a cable: packets that are on their way."""

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.delay = self.loss = 0.0
        self._target = target
        self._packets: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        """Read a packet, and lose it or carry it."""
        packet = os.read(self.source, 65536)
        if random.random() >= self.loss:
            self._packets.append((time.monotonic() + self.delay, packet))

    def deliver(self) -> float | None:
        """Write the packets that are due; return the seconds until the next one."""
        now = time.monotonic()
        while self._packets and self._packets[0][0] <= now:
            # The device may be down, or its buffer full.
            with suppress(OSError):
                os.write(self._target, self._packets.popleft()[1])
        return self._packets[0][0] - now if self._packets else None


def enter(namespace: str) -> None:
    """Let this thread, and no other, be in the network namespace of this file.

    Raises:
        OSError: it is gone, or this is not root.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(namespace).open("rb") as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def tap(name: str, card: str, namespace: str) -> int:
    """Make a TAP device in a network namespace; it exists as long as the descriptor.

    Raises:
        OSError: the kernel does not have them, or this is not root.
    """
    enter(namespace)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "address", card, "txqueuelen", QUEUE], check=True)
    return fd


def carry(fds: Sequence[int]) -> None:
    """Carry packets until the input ends."""
    ways = (Direction(fds[0], fds[1]), Direction(fds[1], fds[0]))
    waiting = selectors.DefaultSelector()
    for way in ways:
        waiting.register(way.source, selectors.EVENT_READ, way.take)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    while True:
        due = [seconds for way in ways if (seconds := way.deliver()) is not None]
        for key, _ in waiting.select(max(0.0, min(due)) if due else None):
            if key.data:
                key.data()
            elif not obey(ways):
                return


def obey(ways: Sequence[Direction]) -> bool:
    """Read an order, and confirm it; return whether there was one."""
    line = sys.stdin.readline()
    if not line:
        return False
    order = json.loads(line)
    for at in order["only"]:
        ways[at].delay, ways[at].loss = order["delay"], order["loss"]
    print("done", flush=True)
    return True


if __name__ == "__main__":
    words = sys.argv[1:]
    devices = [tap(*words[:3]), tap(*words[3:])]
    print("up", flush=True)
    carry(devices)
