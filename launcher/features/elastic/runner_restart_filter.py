"""`--restart_on`: the failures worth a restart, according to the facts known at once."""

from __future__ import annotations

from ...head.output.tail import Tail
from ...head.run.events import RESULT, RankOutput, Round
from ..diagnosis.runner_verdict import of_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...control.messages import WorkerExit
    from ...head.run.events import RunEvent

KEPT = 1 << 20
"""Bytes of the newest output of all ranks that are kept for the classification."""

END = 16 * 1024
"""Bytes of the newest output of each rank and stream that are searched."""


class RestartFilter:
    """Keeps the newest output of a run as its observer, and classifies its failures."""

    def __init__(self, classes: frozenset[str]) -> None:
        """Let failures of these classes lead to a restart."""
        self._classes = classes
        self._tail = Tail(KEPT)

    def on_event(self, event: RunEvent) -> None:
        """Keep the output of the present round."""
        if type(event) is RankOutput and event.stream != RESULT:
            self._tail.add(*event)
        elif type(event) is Round:
            self._tail = Tail(KEPT)

    def refusal(self, host: str, ended: WorkerExit) -> str:
        """Return why a failure does not lead to a restart, "" if it does."""
        texts = self._texts()
        own = texts.pop(ended.rank, "")
        found = of_exit(host, ended, own, texts.values()).kind.value
        wanted = ", ".join(sorted(self._classes))
        return (
            "" if found in self._classes else f"its class is {found}, not {wanted} (--restart_on)"
        )

    def _texts(self) -> dict[int, str]:
        """Return the newest output of each rank: standard output, then standard error."""
        ends: dict[tuple[int, int], bytes] = {}
        for rank, stream, data in self._tail.blocks():
            ends[rank, stream] = (ends.get((rank, stream), b"") + data)[-END:]
        texts: dict[int, str] = {}
        for (rank, _), data in sorted(ends.items()):
            texts[rank] = texts.get(rank, "") + data.decode("utf-8", "replace") + "\n"
        return texts
