"""Watches which user listens on the master port, from the workers' start until rank 0 listens.

The socket that holds the port allows rank 0's store to listen on it, and so any program, also of
another user, that sets SO_REUSEADDR. This cannot be prevented, so it is detected.
"""

from __future__ import annotations

from ...common import system
from ...common.network import lines_of
from ...node.machine import descendants, ports, processes
from ...node.service import NodeService

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import Start
    from ...node.service import ServiceContext
    from ...node.workers.group import WorkerGroup
    from ...node.workers.spawn import Process

FIRST, LONGEST = 0.05, 1.0
"""Seconds until the first check, and the most between two; each is twice the one before."""

PATIENCE = 600.0
"""Seconds until rank 0 is assumed not to use the port."""


class PortWatch(NodeService):
    """Checks a port until a program listens there, or rank 0 has ended."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._loop = context.loop
        self._port = 0
        self._rank0: Process | None = None
        self._pause = FIRST
        self._last = 0.0
        self._over = False

    def started(self, start: Start, group: WorkerGroup, /) -> None:
        """Begin to check, if rank 0 is among these workers."""
        self._port = start.master_port
        self._rank0 = next((one for one in group.processes if one.spec.rank == 0), None)
        if self._rank0 is not None:
            self._last = self._loop.clock() + PATIENCE
            self._loop.call_later(FIRST, self._check)

    def evidence(self, process: Process, _code: int, /) -> tuple[str, str]:
        """If rank 0 has failed and another user has taken the port, return that as the cause."""
        return self.problem() if process is self._rank0 and process.status else "", ""

    def close(self) -> None:
        """Stop checking."""
        self._over = True

    def problem(self) -> str:
        """Return which other user has taken the port, or "" if none has."""
        if self._over:
            return ""
        uids = {one.uid for one in ports.listeners(self._port)}
        self._over = bool(uids)
        strangers = strangers_among(uids)
        return _words(self._port, min(strangers)) if strangers else ""

    def _check(self) -> None:
        ended = self._rank0 is None or self._rank0.status is not None
        if ended or self._loop.clock() > self._last or self._over:
            return
        problem = self.problem()
        if problem:
            self.context.stop(problem)
        self._pause = min(2 * self._pause, LONGEST)
        self._loop.call_later(self._pause, self._check)


def strangers_among(uids: set[int]) -> set[int]:
    """Return those users whose programs are not the job's."""
    strangers = uids - {system.geteuid()}
    return strangers - _ours() if strangers else strangers


def _ours() -> set[int]:
    """Return the users of the job's own processes, which may differ after sudo."""
    return {uid for pid in descendants.pids() for uid in processes.uids(pid)}


def _words(port: int, uid: int) -> str:
    return (
        f"port {port} on {system.uname().nodename} was taken by {named(uid)} before rank 0"
        " listened there: start the job again; without --master_port a free port is chosen"
    )


def named(uid: int) -> str:
    """Return a user in words, the name from the machine's own file: a server may not answer."""
    rows = [line.split(":") for line in lines_of("/etc/passwd")]
    name = next((f" ({row[0]})" for row in rows if row[2:3] == [str(uid)]), "")
    return f"uid {uid}{name}"
