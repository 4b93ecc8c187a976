"""The workers that start under a debugger, from the options. Pure, but for --debug_file."""

from __future__ import annotations

from ...common.errors import UsageError
from ...planning.folders import from_here
from ...resources.ranges import parse_ranks
from ...specs.policies import DebugPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose workers start under a debugger if the options name them.

    Raises:
        UsageError: see `debug_policy`.
    """
    return spec._replace(debug=debug_policy(options))


def debug_policy(options: Options) -> DebugPolicy | None:
    """Return the workers that start under a debugger; None if none does.

    Raises:
        UsageError: the ranks are invalid, the program is not a Python program, or the file cannot
            be used.
    """
    if not options.debug:
        _check_alone(options)
        return None
    if options.no_python:
        raise UsageError("--debug: not with --no_python: only Python programs can be debugged")
    ranks = frozenset() if options.debug == "all" else parse_ranks("--debug", options.debug)
    file = from_here(options.debug_file) if options.debug_file else ""
    if file:
        from ...common import launch_json

        launch_json.read("--debug_file", file)
    return DebugPolicy(ranks, file=file, **options.policy("debug"))


def _check_alone(options: Options) -> None:
    """Refuse options for debugging if nothing is debugged."""
    for name in ("no_debug_wait", "debug_file"):
        if getattr(options, name):
            raise UsageError(f"--{name}: no rank is debugged; name some with --debug RANKS")
