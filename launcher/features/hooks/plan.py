"""Make the policy for reports to other programs from the options."""

from __future__ import annotations

import os

from ...common import output_file
from ...common.errors import UsageError
from ...planning.folders import from_here
from ...specs.policies import HookPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job with the reports to other programs that the options request.

    Raises:
        UsageError: see `hook_policy`.
    """
    return spec._replace(hooks=hook_policy(options))


def hook_policy(options: Options) -> HookPolicy:
    """Return the policy for reports to other programs.

    Raises:
        UsageError: the metrics file cannot be replaced, or the current folder no longer exists.
    """
    path = options.metrics_file
    if path is not None:
        if path in output_file.STREAMS or (os.path.exists(path) and not os.path.isfile(path)):
            raise UsageError(
                f"--metrics_file {path}: is not a regular file; only those can be replaced"
            )
        path = os.path.abspath(path)
    folder = from_here("") if options.on_event else "/"
    return HookPolicy(path, folder=folder, **options.policy("hooks"))
