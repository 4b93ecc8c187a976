"""How this machine's devices are used, asked by a forked child.

A device that does not answer would block the process that asks, and the node launcher must go on.
A child that cannot be killed is left to the kernel; no other is forked before it is gone.
"""

from __future__ import annotations

import json
import os
import signal

from ...accelerator.hardware import nvml
from ..control.job_messages import DeviceUsage
from . import processes
from .blocking import call_apart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..common.loop import Loop

    Devices = tuple[DeviceUsage, ...]

SECONDS = 2.0
"""Seconds for the devices to answer."""

DRIVER = "/dev/nvidiactl"
"""Without this file there is nothing to ask."""


def read() -> Devices:
    """Return how the devices are used, as far as their vendor's library tells; it may block."""
    return tuple(
        DeviceUsage(one.index, one.uuid or "", one.busy, one.used or 0, one.total or 0)
        for one in nvml.read("uuid", "busy", "used", "total")
    )


class DeviceQuestion:
    """Asks all devices once at a time.

    Attributes:
        pid: of the child that asks, 0 if there is none.
    """

    def __init__(self, loop: Loop, ask: Callable[[], Devices] = read, driver: str = DRIVER) -> None:
        self.pid = 0
        self._loop = loop
        self._ask = ask
        self._driver = driver
        self._fd = -1
        self._waiting: list[Callable[[Devices], None]] = []

    def ask(self, answered: Callable[[Devices], None]) -> None:
        """Call `answered` with the devices, () if they do not answer in time."""
        if (self.pid and self._fd < 0) or not os.path.exists(self._driver):
            answered(())
            return
        self._waiting.append(answered)
        if not self.pid:
            self._fork()

    def reaped(self, pid: int) -> None:
        """Note that a child of this process was reaped."""
        if pid == self.pid:
            self.pid = 0

    def close(self) -> None:
        """Kill the child, and give no answer any more."""
        self._waiting.clear()
        self._end(b"")

    def _fork(self) -> None:
        try:
            self.pid, self._fd = call_apart(self._ask)
        except OSError:
            self._answer(())
            return
        os.set_blocking(self._fd, False)
        data = bytearray()
        self._loop.add_reader(self._fd, lambda: self._read(data))
        self._timer = self._loop.call_later(SECONDS, lambda: self._end(b""))

    def _read(self, data: bytearray) -> None:
        block = os.read(self._fd, 65536)
        data += block
        if not block:
            self._timer.cancel()
            self._end(bytes(data))

    def _end(self, data: bytes) -> None:
        if self._fd < 0:
            return
        self._loop.remove(self._fd)
        os.close(self._fd)
        self._fd = -1
        if self.pid:
            processes.send(self.pid, signal.SIGKILL)
        rows = json.loads(data) if data.endswith(b"]") else []
        self._answer(tuple(DeviceUsage(*row) for row in rows))

    def _answer(self, devices: Devices) -> None:
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered(devices)
