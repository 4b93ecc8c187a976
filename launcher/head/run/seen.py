"""What was seen of a run so far, kept for those who ask about it while it runs."""

from __future__ import annotations

from ..output.tail import Tail
from .events import RESULT, Exit, RankOutput, RanksActive, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .events import RunEvent


class Seen:
    """Observes a run.

    Attributes:
        tail: the newest output.
        round: the newest round, 0 if there are none.
        restarts: how often workers were restarted after a failure.
        exits: how ranks of this round have ended: (code, whether they were being stopped).
        idle: for how many seconds ranks have done nothing, if nodes report that (RanksActive).
        followers: called with rank, host, stream and bytes of all output.
    """

    def __init__(self) -> None:
        self.tail = Tail()
        self.round = self.restarts = 0
        self.exits: dict[int, tuple[int, bool]] = {}
        self.idle: dict[int, float] = {}
        self.followers: list[Callable[[int, str, int, bytes], None]] = []

    def on_event(self, event: RunEvent) -> None:
        """Keep what an event tells; most are output."""
        if type(event) is RankOutput:
            self._on_output(event)
        elif type(event) is Exit:
            self.exits[event.rank] = event.code, event.stopped
        elif type(event) is RanksActive:
            self.idle |= {one.rank: one.idle for one in event.activity.ranks}
        elif type(event) is Round:
            self.round, self.restarts = event.number, event.restarts
            self.exits.clear()
            self.idle.clear()

    def _on_output(self, event: RankOutput) -> None:
        if event.stream == RESULT:
            return
        self.tail.add(*event)
        for follow in tuple(self.followers):
            follow(*event)
