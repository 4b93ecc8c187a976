"""Watches who listens on the ports of a role: programs of the job, or another user's.

From START on these ports are free, as a server need not set SO_REUSEADDR, and their numbers stand
in `ps`. So another user may listen there first. This cannot be prevented, so it is detected, and
nothing connects to a port before the role's own program listens there.
"""

from __future__ import annotations

from ...control import frames, messages
from ...control.role_messages import Ports, PortsAsk
from ...node.machine import ports
from ...node.service import NodeService
from ..diagnosis.node_port_watch import named, strangers_among

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.loop import Timer
    from ...control.messages import Start
    from ...node.service import ServiceContext
    from ...node.workers.group import WorkerGroup

ROOT = 0
"""Root can act as anybody, and listens for containers (docker-proxy)."""

FIRST, LONGEST, UNASKED = 0.02, 0.25, 1.0
"""Seconds until the first check, and the most between two: while the runner waits, or does not."""


class RolePorts(NodeService):
    """Checks the ports of a role until the job listens on each, or its workers here have ended."""

    def __init__(self, context: ServiceContext) -> None:
        super().__init__(context)
        self._numbers = context.setup.role_ports
        self._runs: Callable[[], object] = bool
        self._asked: list[tuple[set[str], bytes]] = []
        self._unseen: set[str] = set()
        self._pause = FIRST
        self._timer: Timer | None = None
        self._over = False

    def started(self, _start: Start, group: WorkerGroup, /) -> None:
        """Watch workers that have just been started, as long as some run."""
        self._runs, self._unseen = group.running, set(self._numbers)
        self._check_soon()

    def receive(self, body: bytes) -> None:
        """Answer once the job listens on these ports, and no other user on any.

        Raises:
            BadFrame: the question is invalid.
        """
        ask = messages.unpack(PortsAsk, body)
        if not {*ask.wanted} <= {*self.context.setup.task.ports}:
            raise frames.BadFrame("PORTS_ASK for a port that the role does not have")
        self._asked.append(({*ask.wanted}, messages.pack(frames.PORTS, Ports(ask.id))))
        self._check_soon()

    def close(self) -> None:
        """Check no more, and give no answer."""
        self._over = True
        self._asked.clear()
        self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _check_soon(self) -> None:
        self._pause = FIRST
        self._check()

    def _check(self) -> None:
        self._stop()
        if self._over or not self._runs():
            return
        found = ports.users(self._numbers.values())
        if found is None:  # nobody can tell
            found = {number: {ROOT} for number in self._numbers.values()}
        for name, number in self._numbers.items():
            strangers = strangers_among(found[number] - {ROOT})
            if strangers:
                self.close()
                self.context.stop(self._words(name, min(strangers)))
                return
        self._answer({name for name, number in self._numbers.items() if found[number]})

    def _answer(self, listens: set[str]) -> None:
        """Answer those who asked for ports on which the job listens; look again for the others."""
        self._unseen -= listens
        answered = [one for one in self._asked if one[0] <= listens]
        self._asked = [one for one in self._asked if one not in answered]
        for _, answer in answered:
            self.context.send(answer)
        if self._unseen or self._asked:
            self._timer = self.context.loop.call_later(self._pause, self._check)
            self._pause = min(2 * self._pause, LONGEST if self._asked else UNASKED)

    def _words(self, name: str, uid: int) -> str:
        task = self.context.setup.task
        return (
            f"port {name} ({self._numbers[name]}) on {task.host} was taken by {named(uid)} before"
            f" {task.part} listened there: the next start gets another port"
        )
