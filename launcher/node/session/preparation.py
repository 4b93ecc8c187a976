"""The checks of a task's files, which a child makes: a file system may not answer for ever."""

from __future__ import annotations

from functools import partial

from ...common.errors import reason
from ...common.text import read_json
from ...control import frames, messages
from ..checks import file_checks
from ..machine.blocking import STAYS, Calls, write_in_child
from ..machine.devices import NodeDevices
from ..workers.prepare import FileFindings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ...common.loop import Loop
    from ...control.messages import NodeJob
    from ..machine.blocking import ChildCall

SILENT = 5.0
"""Seconds after which a line says what the checks wait for."""

LIMIT = 240.0
"""Seconds for all checks. The runner waits for longer by default (--start_timeout), so that its
report has the reason."""


class Preparation:
    """The checks for the JOBs of one control line; those of one at a time.

    Attributes:
        making: whether checks are being made.
    """

    def __init__(self, loop: Loop, send: Callable[[bytes], None]) -> None:
        """Begin nothing yet; the runner is told with `send` if checks take long."""
        self._loop = loop
        self._send = send
        self.making = False
        self._calls = Calls(loop)
        self._call: ChildCall | None = None

    def begin(self, task: NodeJob, done: Callable[[FileFindings], None]) -> None:
        """Begin the checks for a task; `done` is called once with what was found."""
        self._task = task
        self._done = done
        self._call = None
        self.making = True
        self._devices = _devices(task)
        if task.held and task.facts:
            from ..facts import collect  # noqa: F401  # or every child would import it
        self._timer = self._loop.call_later(SILENT, self._tell)
        try:
            called = write_in_child(partial(file_checks.write, task, self._devices))
        except OSError as error:
            self._refuse(f"cannot start a process for the pre-start checks: {reason(error)}")
            return
        self._call = self._calls.wait(called, LIMIT, self._on_end)

    @property
    def pids(self) -> set[int]:
        """The children that there are; one may wait for a disk after all is over."""
        return self._calls.pids

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        self._calls.on_reaped(reaped)

    def settle(self) -> None:
        """End checks that are being made, as the runner does not need them any more."""
        if self.making:
            self._refuse("the pre-start checks were abandoned")

    def close(self) -> None:
        """End checks that are being made; nothing is done any more."""
        if self.making:
            self._stop()

    def _stop(self) -> None:
        self.making = False
        self._timer.cancel()
        if self._call is not None:
            self._call.close()

    def _end(self, found: FileFindings) -> None:
        self._stop()
        self._done(found)

    def _refuse(self, why: str) -> None:
        self._end(FileFindings((why,), file_checks.environment_of(self._task), ""))

    def _tell(self) -> None:
        self._send(
            messages.pack(
                frames.WAITS,
                messages.Note(
                    f"no answer from {self._place} for {SILENT:g} s:"
                    f" the start waits up to {LIMIT:g} s for it"
                ),
            )
        )

    def _on_end(self, data: bytes) -> None:
        *_, last = (line for line in (None, *_lines(data)) if line is not True)
        if isinstance(last, list):
            found = file_checks.restored(last)
            if self._call is not None and data.endswith(STAYS):
                found, self._call = found._replace(release=self._call.close), None
            self._end(file_checks.with_devices(found, self._task, self._devices))
        elif isinstance(last, dict):
            raise RuntimeError(last["raised"])
        elif data or not self._said:
            self._refuse(f"pre-start checks were killed while checking {self._place}")
        else:
            self._refuse(
                f"no answer from {self._place} for {LIMIT:g} s: repair its file system"
                " (disk, server, mount), or start without this node"
            )

    @property
    def _said(self) -> bytearray:
        return self._call.data if self._call is not None else bytearray()

    @property
    def _place(self) -> str:
        """What the child touches, or has touched last."""
        return str((_lines(self._said) or [self._task.workdir])[-1])


def _devices(task: NodeJob) -> NodeDevices | None:
    """Detect the devices once, for the checks in the child and for the run; None if that fails."""
    try:
        devices = NodeDevices(file_checks.environment_of(task), task.env)
    except ValueError:  # the run itself says why
        return None
    if task.slots is None:
        devices.count()
    return devices


def _lines(data: bytes | bytearray) -> list[Any]:
    """Return what the child has said until now, without a part of a line."""
    return [read_json(line) for line in data.split(b"\n")[:-1]]
