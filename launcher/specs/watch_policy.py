"""What is watched while a job runs."""

from __future__ import annotations

from ..common.values import NamedTuple

REACTIONS = ("report", "stop", "restart")
"""What can follow from a hang or a broken rule: a line, the end of the job, another round."""


class WatchPolicy(NamedTuple):
    """What is watched while a job runs, and what follows.

    Attributes:
        hang_timeout: seconds without any work on the odd rank after which a job hangs; 0 for never.
        on_hang: what follows, one of `REACTIONS`.
    """

    hang_timeout: float = 300.0
    on_hang: str = "report"
