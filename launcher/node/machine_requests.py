"""Requests of the runner about this machine, whatever runs on it: USAGE_ASK and END_JOB."""

from __future__ import annotations

from functools import partial

from ..control import frames, job_messages, messages
from .device_usage import DeviceQuestion
from .job_processes import Ending
from .usage import usage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ..common.loop import Loop
    from ..control.job_messages import DeviceUsage, EndedJob, Usage


class MachineRequests:
    """Answers such requests of one control line."""

    def __init__(self, loop: Loop, send: Callable[[bytes], None]) -> None:
        """Answer with `send`."""
        self._loop = loop
        self._send = send
        self._devices = DeviceQuestion(loop)
        self._endings: list[Ending] = []

    @property
    def pids(self) -> set[int]:
        """The children that answer requests."""
        return {self._devices.pid} - {0}

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for pid in reaped:
            self._devices.reaped(pid)

    def on_usage_ask(self, workers: Iterable[tuple[int, int]]) -> None:
        """Answer USAGE_ASK for these workers, given as (rank, pid)."""
        self._devices.ask(partial(self._on_devices, usage(workers)))

    def _on_devices(self, known: Usage, devices: tuple[DeviceUsage, ...]) -> None:
        answer = known._replace(devices=devices)
        self._send(messages.pack(frames.USAGE, answer))

    def on_end_job(self, body: bytes) -> None:
        """Begin what END_JOB asks for.

        Raises:
            BadFrame: the message is not valid.
        """
        order = messages.unpack(job_messages.EndJob, body)
        ending = Ending(self._loop, order, self._on_ended)
        self._endings.append(ending)
        ending.begin()

    def _on_ended(self, outcome: EndedJob) -> None:
        self._send(messages.pack(frames.ENDED_JOB, outcome))

    def close(self) -> None:
        """Answer nothing more."""
        self._devices.close()
        while self._endings:
            self._endings.pop().close()
