"""The round that there is now, and what has happened to it."""

from __future__ import annotations

from enum import Enum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.loop import Timer, Timers


class RoundPhase(Enum):
    """How far a round is.

    Attributes:
        RUNNING: nothing is known that ends it.
        NOTICED: its nodes have been told that it will end soon.
        ENDING: its nodes are to leave it, and to get ready for another.
    """

    RUNNING = 1
    NOTICED = 2
    ENDING = 3


class CurrentRound:
    """One round.

    Attributes:
        began: when it began.
        nodes: all that were in it when it began.
        finished: those of them whose workers have all ended with code 0.
        failed: a failure in it was counted.
        shrunk: it has lost a node.
        undecided: how many failures in it end the job, unless it has lost a node.
        watched: it is checked whether nodes that were in none get ready.
    """

    def __init__(self, nodes: Sequence[int] = (), began: float = 0.0) -> None:
        self.began = began
        self.nodes = frozenset(nodes)
        self.finished: set[int] = set()
        self.phase = RoundPhase.RUNNING
        self.failed = self.shrunk = self.watched = False
        self.undecided = 0
        self._timers: list[Timer] = []

    @property
    def complete(self) -> bool:
        """Whether all of its work is done."""
        return bool(self.nodes) and len(self.finished) == len(self.nodes)

    def await_losses(self, timers: Timers, seconds: float, known: Callable[[], None]) -> None:
        """Call `known` when all losses are known that were there when a worker of it has failed."""
        self.undecided += 1

        def settle() -> None:
            self.undecided -= 1
            known()

        timers.call_later(seconds, settle)

    def watch(self, timers: Timers, seconds: float, late: Callable[[], None]) -> None:
        """Call `late` so many seconds from now, unless it is over by then."""
        self._timers.append(timers.call_later(seconds, late))

    def end(self) -> None:
        """Wait for nothing any more: another round has begun, or none will."""
        for timer in self._timers:
            timer.cancel()
