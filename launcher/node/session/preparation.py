"""The file checks for a task, made in a child: a file system may block forever."""

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
"""Seconds after which a message says what the checks wait for."""

LIMIT = 240.0
"""Seconds for all checks. The runner's default --start_timeout is longer, and its
report has the reason."""


class Preparation:
    """The file checks for the JOBs of one control line, one JOB at a time.

    Attributes:
        making: whether checks are in progress.
    """

    def __init__(self, loop: Loop, send: Callable[[bytes], None]) -> None:
        """Create without checks; `send` sends the runner a message if checks take long."""
        self._loop = loop
        self._send = send
        self.making = False
        self._calls = Calls(loop)
        self._call: ChildCall | None = None

    def start(self, task: NodeJob, done: Callable[[FileFindings], None]) -> None:
        """Start the checks for a task; `done` is called once, with the findings."""
        self._task = task
        self._done = done
        self._call = None
        self.making = True
        self._devices = _devices(task)
        if task.held and task.facts:
            from ...features.quick_check import node_collect as collect  # noqa: F401  # or every child would import it
        self._timer = self._loop.call_later(SILENT, self._tell)
        try:
            called = write_in_child(partial(file_checks.write, task, self._devices))
        except OSError as error:
            self._fail(f"cannot start a process for the pre-start checks: {reason(error)}")
            return
        self._call = self._calls.wait(called, LIMIT, self._on_end)

    @property
    def pids(self) -> set[int]:
        """The children that make checks, including any that still wait for a disk afterwards."""
        return self._calls.pids

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        self._calls.on_reaped(reaped)

    def cancel(self) -> None:
        """Reject the task if its checks are in progress: the runner no longer needs them."""
        if self.making:
            self._fail("the pre-start checks were abandoned")

    def close(self) -> None:
        """Stop checks in progress without a result."""
        if self.making:
            self._stop()

    def _stop(self) -> None:
        self.making = False
        self._timer.cancel()
        if self._call is not None:
            self._call.close()

    def _finish(self, found: FileFindings) -> None:
        self._stop()
        self._done(found)

    def _fail(self, why: str) -> None:
        self._finish(FileFindings((why,), file_checks.environment_of(self._task), ""))

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
            self._finish(file_checks.with_devices(found, self._task, self._devices))
        elif isinstance(last, dict):
            raise RuntimeError(last["raised"])
        elif data or not self._said:
            self._fail(f"pre-start checks were killed while checking {self._place}")
        else:
            self._fail(
                f"no answer from {self._place} for {LIMIT:g} s: repair its file system"
                " (disk, server, mount), or start without this node"
            )

    @property
    def _said(self) -> bytearray:
        return self._call.data if self._call is not None else bytearray()

    @property
    def _place(self) -> str:
        """The file that the child touches now, or touched last."""
        return str((_lines(self._said) or [self._task.workdir])[-1])


def _devices(task: NodeJob) -> NodeDevices | None:
    """Detect the devices once, for the child's checks and the run; None if that fails."""
    try:
        devices = NodeDevices(file_checks.environment_of(task), task.env)
    except ValueError:  # the run itself reports the reason
        return None
    if task.slots is None:
        devices.count()
    return devices


def _lines(data: bytes | bytearray) -> list[Any]:
    """Return the complete lines that the child has sent so far."""
    return [read_json(line) for line in data.split(b"\n")[:-1]]
