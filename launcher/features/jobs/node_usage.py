"""The question `usage`: the resources that workers, this machine and its devices use."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from ....accelerator.hardware import nvml
from ...common import system
from ...common.text import read_json
from ...control.job_messages import DeviceUsage
from ...node.answers import NodeAnswers
from ...node.machine.blocking import call_in_child
from ...node.machine.usage import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...control.job_messages import DeviceUsage, UsageAsk
    from ...node.answers import QuestionContext, QuestionReply
    from ...node.machine.blocking import Calls, ChildCall

    Devices = tuple[DeviceUsage, ...]


class UsageAnswers(NodeAnswers):
    """Reports usage; devices that do not answer in time are left out."""

    def __init__(self, context: QuestionContext) -> None:
        super().__init__(context)
        self._devices = DeviceQuestion(self.calls, self._read_devices)

    def ask(self, _ask: UsageAsk, reply: QuestionReply, /) -> None:
        known = usage([(one.spec.rank, one.pid) for one in self.context.workers()])
        self._devices.ask(reply.bounded(lambda devices: reply(known._replace(devices=devices))))

    def _read_devices(self) -> tuple[DeviceUsage, ...]:
        """Return the usage of the devices; a forked child calls this.

        NVML's module is among the packages of the workers' Python. This process has none (`-S`).
        """
        from ..quick_check.node_interpreter import interpreter

        workers = self.context.workers()
        found = ((one.spec.python, one.spec.env) for one in workers if one.spec.python)
        python, env = next(found, (os.fsencode(sys.executable), os.environb))
        environ = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
        return read(interpreter(os.fsdecode(python), environ).folders)


SECONDS = 2.0
"""Seconds for the devices to answer."""

DRIVER = "/dev/nvidiactl"
"""The file without which there is no driver to ask."""


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
