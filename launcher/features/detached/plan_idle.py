"""Options of a job without effect, or with an effect that their names do not suggest. Pure."""

from __future__ import annotations

import re

from ...cli.options import all_options
from ...planning.shape import has_own_logs, is_elastic, nodes_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...cli.options import Options
    from ...cli.parser import Command

PARTNERS = {
    "health_timeout": "health_command",
    "change_delay": "change_notice",
    "setup_if": "setup",
    "sync_limit": "sync",
    "warm_modules": "warm_workers",
}
"""Options that only modify another option."""


def notes(command: Command) -> Iterator[str]:
    """Yield a note for each; options from files are skipped, as these serve many jobs."""
    options, typed = command.options, command.given - command.origins.keys()
    for name in sorted(typed):
        if getattr(options, name) == "" and not all_options()[name].default:
            yield f"--{name} is empty, so it has no effect"
    for name, partner in PARTNERS.items():
        if name in typed and not getattr(options, partner):
            yield f"--{name} has no effect without --{partner}"
    for one in options.export if "export" in typed else ():
        if re.search(r",[A-Za-z_][A-Za-z0-9_]*=", one):
            yield f"--export {one}: sets only {one.partition('=')[0]}; repeat --export for more"
    if "on_hang" in typed and not options.hang_timeout and options.on_hang != "report":
        yield f"--on_hang {options.on_hang} has no effect with --hang_timeout 0"
    if "launcher" in typed and options.no_ssh and options.launcher not in {"auto", "local"}:
        yield f"--launcher {options.launcher} has no effect with --no_ssh"
    if not is_elastic(options):
        for name in ("cool_down", "gain_delay"):
            if name in typed:
                yield f"--{name} has no effect: the job is not elastic"
    elif why := _elastic_by(options):
        yield f"{why} makes the job elastic: docs/elastic.md; --max_restarts N restarts its workers"


def _elastic_by(options: Options) -> str:
    """Return the option that makes a job elastic as a side effect, or ""."""
    if options.elastic_training or options.max_restarts is not None or nodes_range(options):
        return ""
    if not has_own_logs(options):
        return f"--logs_specs {options.logs_specs}"
    for name in ("min_elastic_nodes", "max_elastic_nodes"):
        if (number := getattr(options, name)) is not None:
            return f"--{name} {number}"
    return ""
