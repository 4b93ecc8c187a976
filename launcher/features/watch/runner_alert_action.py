"""The action on a hang or a broken rule: report it, stop the job (exit code 77), or restart it."""

from __future__ import annotations

from ...common.errors import NO_PROGRESS
from ...head.run.events import Alarm
from ...head.run.restart_policy import GiveUp, restart, stop_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...head.run.events import RunEvent
    from ...head.run.run import Handle

STOPPED = "stopped the job"
"""dsrun's reaction, at the head of the report."""


class AlertAction:
    """Acts on the findings of one run's watches."""

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
            handle: reports the finding to the run.
        """
        self._running = running
        self._tell = tell
        self._warn = warn
        self._handle = handle

    def perform(self, kind: str, then: str, sentence: str, sign: str = "") -> None:
        """Report a finding, and stop the job or restart the workers if `then` says so.

        Args:
            kind: the finding, as a word for programs: `hang`, `rule` or `slow`.
            then: the reaction, one of `ALERT_ACTIONS`.
            sentence: the finding in words.
            sign: evidence for the diagnosis if this ends the job, as in `Loss`.
        """
        if not self._running():
            return
        self._tell(Alarm(kind, then, sentence))
        if then == "report":
            self._warn(sentence)
        elif then == "stop":
            self._handle(stop_for, _reason_to_stop(sentence, sign))
        else:
            in_vain = f"{sentence}; it cannot be restarted again"
            self._handle(restart, sentence, _reason_to_stop(in_vain, sign))


def _reason_to_stop(sentence: str, sign: str) -> GiveUp:
    """Return the reason to end the job, with this as the cause."""
    return GiveUp(sentence, NO_PROGRESS, STOPPED, sign)
