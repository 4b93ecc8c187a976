"""Requests of the runner about this machine: USAGE_ASK, END_JOB and STACKS_ASK."""

from __future__ import annotations

import os
import sys
from functools import partial

from ...control import frames, job_messages, messages
from ..machine import device_usage
from ..machine.device_usage import DeviceQuestion
from ..machine.job_processes import JobEnder
from ..machine.usage import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...common.loop import Loop
    from ...control.job_messages import DeviceUsage, EndedJob, Usage
    from ..stacks.questions import StackQuestions
    from ..workers.spawn import Process


class MachineRequests:
    """Answers such requests of one control line.

    Attributes:
        handlers: by kind of frame.
    """

    def __init__(
        self, loop: Loop, send: Callable[[bytes], None], workers: Callable[[], Sequence[Process]]
    ) -> None:
        """Answer with `send`; `workers` returns those that run now."""
        self._loop = loop
        self._send = send
        self._workers = workers
        self.handlers: dict[int, Callable[[bytes], None]] = {
            frames.USAGE_ASK: self._on_usage_ask,
            frames.END_JOB: self._on_end_job,
            frames.STACKS_ASK: self._on_stacks_ask,
        }
        self._devices = DeviceQuestion(loop, self._read_devices)
        self._endings: list[JobEnder] = []
        self._stacks: StackQuestions | None = None

    @property
    def pids(self) -> set[int]:
        """The children that answer requests."""
        stacks = self._stacks.pids if self._stacks is not None else set()
        return {self._devices.pid, *stacks} - {0}

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for pid in reaped:
            self._devices.reaped(pid)
        if self._stacks is not None:
            self._stacks.on_reaped(reaped)

    def _on_usage_ask(self, _body: bytes) -> None:
        workers = [(one.spec.rank, one.pid) for one in self._workers()]
        self._devices.ask(partial(self._on_devices, usage(workers)))

    def _read_devices(self) -> tuple[DeviceUsage, ...]:
        """Return how devices are used; a forked child does so.

        NVML's module is among the packages of the workers' Python. This process has none (`-S`).
        """
        from ..facts.interpreter import interpreter

        found = ((one.spec.python, one.spec.env) for one in self._workers() if one.spec.python)
        python, env = next(found, (os.fsencode(sys.executable), os.environb))
        environ = {os.fsdecode(name): os.fsdecode(value) for name, value in env.items()}
        return device_usage.read(interpreter(os.fsdecode(python), environ).folders)

    def _on_devices(self, known: Usage, devices: tuple[DeviceUsage, ...]) -> None:
        answer = known._replace(devices=devices)
        self._send(messages.pack(frames.USAGE, answer))

    def _on_end_job(self, body: bytes) -> None:
        order = messages.unpack(job_messages.EndJob, body)
        ending = JobEnder(self._loop, order, self._on_ended)
        self._endings.append(ending)
        ending.begin()

    def _on_ended(self, outcome: EndedJob) -> None:
        self._send(messages.pack(frames.ENDED_JOB, outcome))

    def _on_stacks_ask(self, body: bytes) -> None:
        """Have stacks read; what does so is imported for the first question."""
        if self._stacks is None:
            from ..stacks.questions import StackQuestions

            self._stacks = StackQuestions(self._loop, self._send)
        self._stacks.ask(body, self._workers())

    def close(self) -> None:
        """Answer nothing more."""
        self._devices.close()
        if self._stacks is not None:
            self._stacks.close()
        while self._endings:
            self._endings.pop().close()
