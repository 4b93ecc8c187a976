"""Whose socket listens on the master port, from the start of the workers until rank 0's own does.

The socket that holds the port lets rank 0's store listen beside it, and so any program that asks
for that (SO_REUSEADDR), another user's as well. Nothing can prevent it, so it is looked for.
"""

from __future__ import annotations

import os

from ..common.network import lines_of
from . import descendants, ports, processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..common import loop as loops
    from .workers.spawn import Process

    Taken = Callable[[str], None]

FIRST, LONGEST = 0.05, 1.0
"""Seconds until the first look, and between two: each is twice as long as the one before."""

PATIENCE = 600.0
"""Seconds after which rank 0 will not use the port any more."""


class PortWatch:
    """Looks at a port until somebody listens there, or rank 0 has ended."""

    def __init__(self, loop: loops.Loop, port: int, rank0: Process, taken: Taken) -> None:
        """Begin to look; `taken` is told once, in words, when it is another user."""
        self._loop = loop
        self._port = port
        self._rank0 = rank0
        self._taken = taken
        self._pause = FIRST
        self._last = loop.clock() + PATIENCE
        self._over = False
        loop.call_later(FIRST, self._look)

    def close(self) -> None:
        """Look no more."""
        self._over = True

    def problem(self) -> str:
        """Return who has taken the port, "" for nobody, or where rank 0 was not too late."""
        if self._over:
            return ""
        uids = {one.uid for one in ports.listeners(self._port)}
        self._over = bool(uids)
        strangers = uids - {os.geteuid()}
        strangers -= _ours() if strangers else set()
        return _words(self._port, min(strangers)) if strangers else ""

    def _look(self) -> None:
        ended = self._rank0.status is not None or self._loop.clock() > self._last
        if ended or self._over:
            return
        problem = self.problem()
        if problem:
            self._taken(problem)
        self._pause = min(2 * self._pause, LONGEST)
        self._loop.call_later(self._pause, self._look)


def _ours() -> set[int]:
    """Return the users that processes of the job have become, as with sudo."""
    return {uid for pid in descendants.pids() for uid in processes.uids(pid)}


def _words(port: int, uid: int) -> str:
    return (
        f"port {port} on {os.uname().nodename} was taken by uid {uid}{_name(uid)} before rank 0"
        " listened there: run it again; without --master_port another port is found"
    )


def _name(uid: int) -> str:
    """Return a user's name in brackets; only the machine's own file, as a server may not answer."""
    rows = [line.split(":") for line in lines_of("/etc/passwd")]
    return next((f" ({row[0]})" for row in rows if row[2:3] == [str(uid)]), "")
