"""What follows from a hang or a broken rule: a line, the end of the job, or another round."""

from __future__ import annotations

import signal

from ...common.errors import NO_PROGRESS
from ..run.events import Alarm
from ..run.phase import Phase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..run.run import Run

STOPPED = "stopped the job"
"""What dsrun has done, at the head of the report."""


class Reaction:
    """Acts on what watches of one run have found."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def react(self, kind: str, then: str, sentence: str, sign: str = "") -> None:
        """Report what was found, stop the job for it, or restart its workers.

        Args:
            kind: what was found, as a word for programs: `hang`, `rule` or `slow`.
            then: what follows, one of `REACTIONS`.
            sentence: what was found.
            sign: what the verdict is drawn from if the job ends for it, as in `Loss`.
        """
        if self._run.phase is not Phase.RUNNING:
            return
        if self._run.observers:
            self._run.observers.tell(Alarm(kind, then, sentence))
        if then == "report":
            self._run.warn(sentence)
        elif then == "stop":
            self.stop(sentence, sign)
        elif not self._run.restarts.restart(sentence):
            self.stop(f"{sentence}; it cannot be restarted again", sign)

    def stop(self, sentence: str, sign: str = "") -> None:
        """End the job with exit code `NO_PROGRESS`, and this as the cause."""
        run = self._run
        run.warn(f"{sentence}: stopping the job")
        run.record.gave_up(sentence, run.loop.clock(), NO_PROGRESS, STOPPED, sign)
        run.stop(signal.SIGTERM)
