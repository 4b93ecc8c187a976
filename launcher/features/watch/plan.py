"""The policy of watches on a running job, from the options."""

from __future__ import annotations

import os

from ...common.errors import UsageError
from ...planning.folders import workdir
from ...specs.policies import EXPECT, WatchPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec
    from ...specs.policies import ElasticPolicy, Rule


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job that is watched as the options say.

    Raises:
        UsageError: see `watch_policy`.
    """
    return spec._replace(watch=watch_policy(options, spec.elastic))


def watch_policy(options: Options, elastic: ElasticPolicy | None) -> WatchPolicy:
    """Return the policy for watching a job with these options.

    Raises:
        UsageError: rules are invalid, or request a restart of a job that cannot be restarted.
    """
    rules = _rules(options)
    restarts = {"--on_hang restart": options.on_hang == "restart"}
    for rule in rules:
        then = "--on_missing restart" if rule.name == EXPECT else f"{rule.name}: then restart"
        restarts[then] = rule.then == "restart"
    restarts["--stop_without_progress"] = options.stop_without_progress > 0
    for name, asked in restarts.items():
        if asked and elastic is None:
            backend = options.rdzv_backend
            torchs = f"with --rdzv_backend {backend} torch restarts the workers"
            why = torchs if backend != "static" else "allow it with --max_restarts N"
            raise UsageError(f"{name}: the job cannot be restarted; {why}")
    return WatchPolicy(rules=rules, checkpoints=_checkpoints(options), **options.policy("watch"))


def _rules(options: Options) -> tuple[Rule, ...]:
    """Return the rules on output; their reader is imported only if there are any.

    Raises:
        UsageError: the rules are invalid, or there is no output.
    """
    given = options.expect, options.rules, options.within, options.every
    if not any(given) and options.on_missing == "report":
        return ()
    if options.redirects == "3":
        raise UsageError(
            "--redirects 3: no output reaches dsrun, where --expect and --rules look for it; write"
            " the files with --tee 3"
        )
    from .plan_rules import rules

    return rules(options)


def _checkpoints(options: Options) -> str:
    """Return the pattern of files that show progress, as an absolute path, or "".

    Raises:
        UsageError: the sign of progress is missing, or not needed.
    """
    rounds, pattern = options.stop_without_progress, options.checkpoints
    if rounds and not (pattern or options.expect):
        raise UsageError(
            f"--stop_without_progress {rounds}: nothing shows progress; add --expect 'REGEX' for"
            " lines, --checkpoints 'GLOB' for files, or both"
        )
    if pattern and not rounds:
        raise UsageError(f"--checkpoints {pattern}: only with --stop_without_progress N")
    return os.path.join(workdir(options), pattern) if pattern else ""
