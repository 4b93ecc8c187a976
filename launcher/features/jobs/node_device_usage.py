"""The usage of this machine's devices, read by a forked child.

A device that does not answer would block the process that asks, and the node launcher must go on. A
child that cannot be killed is left to the kernel; no other is forked before it is gone.
"""

from __future__ import annotations

import sys
from contextlib import suppress

from ....accelerator.hardware import nvml
from ...common import system
from ...common.text import read_json
from ...control.job_messages import DeviceUsage
from ...node.machine.blocking import call_in_child

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...node.machine.blocking import Calls, ChildCall

    Devices = tuple[DeviceUsage, ...]

SECONDS = 2.0
"""Seconds for the devices to answer."""

DRIVER = "/dev/nvidiactl"
"""Without this file there is nothing to ask."""


def read(folders: Sequence[str] = ()) -> Devices:
    """Return the usage of the devices according to their vendor's library; may block.

    Without NVML's Python module, the answer has only the devices' numbers and UUIDs.

    Args:
        folders: more folders to search for this module.
    """
    sys.path.extend(folders)
    gpus = nvml.read("uuid", "busy", "used", "total")
    return tuple(
        DeviceUsage(one.index, one.uuid or "", one.busy, one.used or 0, one.total or 0)
        for one in (gpus or (() if nvml.is_installed() else nvml.from_proc()))
    )


class DeviceQuestion:
    """Asks all devices once at a time."""

    def __init__(
        self, calls: Calls, ask: Callable[[], Devices] = read, driver: str = DRIVER
    ) -> None:
        self._calls = calls
        self._ask = ask
        self._driver = driver
        self._call: ChildCall | None = None
        self._waiting: list[Callable[[Devices], None]] = []

    @property
    def pid(self) -> int:
        """The child that queries the devices, 0 without one."""
        return self._call.pid if self._call is not None else 0

    def ask(self, answered: Callable[[Devices], None]) -> None:
        """Call `answered` with the devices, () if they do not answer in time."""
        asking = self._call is not None and self._call.asking
        if (self.pid and not asking) or not system.exists(self._driver):
            answered(())
            return
        self._waiting.append(answered)
        if not asking:
            self._fork()

    def _fork(self) -> None:
        try:
            self._call = self._calls.wait(call_in_child(self._ask), SECONDS, self._finish)
        except OSError:
            self._answer(())

    def _finish(self, data: bytes) -> None:
        devices: Devices = ()
        with suppress(ValueError, TypeError):  # the child was killed while it wrote
            devices = tuple(DeviceUsage(*row) for row in read_json(data))
        self._answer(devices)

    def _answer(self, devices: Devices) -> None:
        waiting, self._waiting = self._waiting, []
        for answered in waiting:
            answered(devices)
