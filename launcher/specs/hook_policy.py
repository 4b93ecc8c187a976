"""What is told about a running job to other programs on the runner's machine."""

from __future__ import annotations

from ..common.values import NamedTuple


class HookPolicy(NamedTuple):
    """What is told about a running job to other programs.

    Attributes:
        metrics_file: the file that metrics are written to, as an absolute path; None for none.
        on_event: a shell command that is run for every event of the job; "" for none.
        folder: where the shell command runs, as an absolute path.
    """

    metrics_file: str | None = None
    on_event: str = ""
    folder: str = "/"
