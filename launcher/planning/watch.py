"""Make the policy of what is watched while a job runs from the options. Pure."""

from __future__ import annotations

from ..common.errors import UsageError
from ..specs.watch_policy import WatchPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options
    from ..specs.elastic_policy import ElasticPolicy


def watch_policy(options: Options, elastic: ElasticPolicy | None) -> WatchPolicy:
    """Return what is watched in a job with these options.

    Raises:
        UsageError: the job is to be restarted, but it cannot be.
    """
    if options.on_hang == "restart" and elastic is None:
        raise UsageError(
            "--on_hang restart: the job cannot be restarted; allow it with --max_restarts N"
        )
    return WatchPolicy(hang_timeout=options.hang_timeout, on_hang=options.on_hang)
