"""The action on a hang or a broken rule: report it, stop the job (exit code 77), or restart it."""

from __future__ import annotations

from ...common.errors import NO_PROGRESS
from ..run.events import Alarm
from ..run.restart_policy import GiveUp, give_up, restart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..run.events import RunEvent
    from ..run.run import Handle

STOPPED = "stopped the job"
"""What dsrun has done, at the head of the report."""


class AlertAction:
    """Acts on what watches of one run have found."""

    def __init__(
        self,
        running: Callable[[], bool],
        tell: Callable[[RunEvent], None],
        warn: Callable[[str], None],
        handle: Handle,
    ) -> None:
        """Act on findings.

        Args:
            running: returns whether the job runs, and is not being stopped.
            tell: tells observers of an event.
            warn: prints a warning for the user.
            handle: tells the run what was found.
        """
        self._running = running
        self._tell = tell
        self._warn = warn
        self._handle = handle

    def perform(self, kind: str, then: str, sentence: str, sign: str = "") -> None:
        """Report what was found, stop the job for it, or restart its workers.

        Args:
            kind: what was found, as a word for programs: `hang`, `rule` or `slow`.
            then: what follows, one of `ALERT_ACTIONS`.
            sentence: what was found.
            sign: what the verdict is drawn from if the job ends for it, as in `Loss`.
        """
        if not self._running():
            return
        self._tell(Alarm(kind, then, sentence))
        if then == "report":
            self._warn(sentence)
        elif then == "stop":
            self._handle(give_up, _give_up(sentence, sign))
        else:
            in_vain = f"{sentence}; it cannot be restarted again"
            self._handle(restart, sentence, _give_up(in_vain, sign))


def _give_up(sentence: str, sign: str) -> GiveUp:
    """Return what ends the job, with this as the cause."""
    return GiveUp(sentence, NO_PROGRESS, STOPPED, sign)
