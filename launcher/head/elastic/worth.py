"""`--restart_on`: which failures are worth a restart, by what is known at once."""

from __future__ import annotations

from ..deaths.verdict import of_exit
from ..output.tail import Tail
from ..run.events import RESULT, RankOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import Exit
    from ..run.events import RunEvent
    from ..run.run import Run

KEPT = 1 << 20
"""Bytes of the newest output of all ranks that are kept for this."""


class Worth:
    """Keeps the newest output of a run, and judges its failures by it."""

    def __init__(self, run: Run, classes: frozenset[str]) -> None:
        """Let failures of these classes lead to a restart."""
        self._classes = classes
        self._tail = Tail(KEPT)
        run.observe(self.on_event)

    def on_event(self, event: RunEvent) -> None:
        """Keep output."""
        if type(event) is RankOutput and event.stream != RESULT:
            self._tail.add(*event)

    def refusal(self, host: str, ended: Exit) -> str:
        """Return why a failure does not lead to a restart, "" if it does."""
        data = b"".join(data for rank, _, data in self._tail.blocks() if rank == ended.rank)
        found = of_exit(host, ended, data.decode("utf-8", "replace")).kind.value
        wanted = ", ".join(sorted(self._classes))
        return (
            "" if found in self._classes else f"its class is {found}, not {wanted} (--restart_on)"
        )
