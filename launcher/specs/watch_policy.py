"""What is watched while a job runs."""

from __future__ import annotations

from ..common.values import NamedTuple
from .rule import Rule

ALERT_ACTIONS = ("report", "stop", "restart")
"""What can follow from a hang or a broken rule: a line, the end of the job, another round."""

SAMPLE, SLOW_SAMPLE, LEAST_SAMPLE = 2.0, 1.0, 0.2
"""Seconds between two looks at what workers do: as a rule, to find slow ranks, and at least."""


class WatchPolicy(NamedTuple):
    """What is watched while a job runs, and what follows.

    Attributes:
        hang_timeout: seconds without any work on the odd rank after which a job hangs; 0 for never.
        on_hang: what follows, one of `ALERT_ACTIONS`.
        rules: on what the workers print.
        fruitless_rounds: how many rounds without progress in a row end the job; 0 for none.
        checkpoints: a pattern of files as seen by the runner, a new one of which is progress; "".
        slow: whether to warn of ranks and links for which the others wait.
        hook: whether workers that run Python get ready to say where they are in their code.
    """

    hang_timeout: float = 300.0
    on_hang: str = "report"
    rules: tuple[Rule, ...] = ()
    fruitless_rounds: int = 0
    checkpoints: str = ""
    slow: bool = False
    hook: bool = True

    @property
    def sample(self) -> float:
        """Seconds after which nodes report again what their workers do; 0.0 for never."""
        wanted = [min(SAMPLE, self.hang_timeout / 10)] if self.hang_timeout else []
        wanted += [SLOW_SAMPLE] if self.slow else []
        return max(LEAST_SAMPLE, min(wanted)) if wanted else 0.0
