"""The question `usage`: the resources that workers and this machine use."""

from __future__ import annotations

import os
import sys

from ...node.answers import NodeAnswers
from ...node.machine.usage import usage
from . import node_device_usage as device_usage
from .node_device_usage import DeviceQuestion

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.job_messages import DeviceUsage, UsageAsk
    from ...node.answers import QuestionContext, QuestionReply


class UsageAnswers(NodeAnswers):
    """Tells what is used; devices that do not answer in time are left out."""

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
        return device_usage.read(interpreter(os.fsdecode(python), environ).folders)
