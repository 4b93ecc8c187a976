"""Clients that wait for the end of a job, which never waits for them."""

from __future__ import annotations

import json
import stat
from contextlib import suppress

from ...common import system
from ...common.errors import UsageError
from ...common.write_all import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...head.report.ending import Ending
    from .runner_server import LocalCaller, Message


MOST = 48
"""Most callers that wait at a time; this leaves room for other requests."""


class Waiters:
    """Callers that wait for the end of one job.

    Each brings a file, which takes a report of any length at once: a socket takes only a limited
    amount of unread data.
    """

    def __init__(self) -> None:
        self._waiting: dict[LocalCaller, tuple[Message, int]] = {}

    def __contains__(self, caller: object) -> bool:
        return caller in self._waiting

    def add(self, caller: LocalCaller, request: Message, fds: list[int]) -> None:
        """Answer a caller once the job has ended; it can ask for nothing else from now on.

        Raises:
            UsageError: the request has no file, or too many clients wait.
        """
        if len(self._waiting) >= MOST:
            raise UsageError(f"{MOST} others already wait for its end; try again later")
        if len(fds) != 1 or not stat.S_ISREG(system.fstat(fds[0]).st_mode):
            raise UsageError("invalid request: expected a file for the report")
        caller.verbs = {}
        self._waiting[caller] = request, fds[0]
        caller.on_close.append(lambda: self._remove(caller))
        caller.event({"event": "Waiting"})

    def tell(self, ending: Ending) -> None:
        """Answer all, and end their connections; drop answers that cannot be sent at once."""
        for caller, (request, fd) in tuple(self._waiting.items()):
            with suppress(OSError):
                write_all(fd, _told(ending))
                caller.answer({"code": ending.code}, request)
            caller.close()

    def _remove(self, caller: LocalCaller) -> None:
        _, fd = self._waiting.pop(caller)
        system.close(fd)


def _told(ending: Ending) -> bytes:
    return json.dumps({"text": ending.text, "report": ending.data}).encode()
