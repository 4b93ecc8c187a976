"""A node's part in the rounds of an elastic job: torch's agent, and a crew for every round."""

from __future__ import annotations

import signal

from ..values import NamedTuple
from .desk import Desk, Visits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..control.messages import Start
    from ..loop import Loop
    from .crew import Crew
    from .outfit import Outfit


class Calls(NamedTuple):
    """What the rounds ask of the session; each is called from the loop.

    Attributes:
        joined: tell the runner that this node is ready for a round; its store's port.
        hire: start this round's workers, with the agent's pid to leave alone.
        over: there will be no other round; "" if all ended well, else the reason.
    """

    joined: Callable[[int], None]
    hire: Callable[[Start, int], Crew]
    over: Callable[[str], None]


class Agency:
    """Carries out what the agent decides.

    Attributes:
        over: there will be no other round.
    """

    def __init__(
        self, loop: Loop, outfit: Outfit, start: Start, grace: float, calls: Calls
    ) -> None:
        """Start the agent.

        Raises:
            SpawnFailed: it cannot be started.
        """
        self.over = False
        self._calls = calls
        self._grace = grace
        self._start: Start | None = None
        self._hired: Start | None = None
        self._crew: Crew | None = None
        self._manned = False
        visits = Visits(calls.joined, self._on_manned, self._on_stopped, self._on_left)
        self._desk = Desk(loop, lambda fd: outfit.agent(start, fd), visits)

    @property
    def resting(self) -> bool:
        """Whether no worker of any round is left here."""
        return self._crew is None

    def form(self, start: Start) -> None:
        """Tell the agent its place in a round."""
        self._start = start
        self._manned = False
        place: dict[str, object] = {
            "rank": start.node_rank,
            "nodes": start.nodes,
            "host": start.master_addr,
            "port": start.master_port,
        }
        self._desk.form(place, len(start.slots))

    def change(self) -> None:
        """Have the agent leave its round for another."""
        self._desk.change()

    def exited(self, rank: int, code: int) -> None:
        """Tell the agent that a worker has ended; those of a former round are forgotten by now."""
        if self._start is not None and self._start is self._hired:
            self._desk.ended(rank - self._start.first_rank, code)

    def rested(self) -> None:
        """Take in that nothing of a round is left; the next may have been waiting for that."""
        self._crew = None
        self._hire()

    def close(self) -> None:
        """End the agent."""
        self.over = True
        self._desk.close()

    def _on_manned(self) -> None:
        self._manned = True
        self._hire()

    def _hire(self) -> None:
        if self._manned and self._crew is None and not self.over and self._start is not None:
            self._manned = False
            self._hired = self._start
            self._crew = self._calls.hire(self._start, self._desk.pid)

    def _on_stopped(self, number: int) -> None:
        if self._crew is not None:
            self._crew.stop(number, 0.0 if number == signal.SIGKILL else self._grace)

    def _on_left(self, well: bool) -> None:
        if not self.over:
            self.over = True
            self._calls.over("" if well else f"torch's agent ended: {self._desk.words or 'killed'}")
