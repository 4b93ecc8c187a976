"""Sends the output of all roles of a job to one caller."""

from __future__ import annotations

from ..job.job_requests import LogReader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..local.server import LocalCaller


class RolesLogReader:
    """Sends output as `LogReader` does; before that of another role, an event `role` names it."""

    def __init__(self, caller: LocalCaller, ranks: set[int] | None) -> None:
        """Send the output of these ranks of each role; None for all."""
        self._caller, self._ranks = caller, ranks
        self._role = ""
        self._readers: dict[str, LogReader] = {}

    def feed(self, role: str, rank: int, host: str, stream: int, data: bytes) -> None:
        """Send output of a rank."""
        if role != self._role:
            self._role = role
            self._caller.event({"event": "role", "role": role})
        reader = self._readers.setdefault(role, LogReader(self._caller, self._ranks))
        reader.feed(rank, host, stream, data)
