"""The placeholders of a job, from `--placeholders`, `--first` and `--rest`."""

from __future__ import annotations

from ...common.errors import UsageError
from ...common.shell_words import shell_words
from .names import mistakes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.options import Options
    from ...specs.job import JobSpec


def plan(options: Options, spec: JobSpec) -> JobSpec:
    """Return a job whose words are filled in on each node, followed by those for its place.

    Raises:
        UsageError: the words are invalid, or a placeholder is written wrongly.
    """
    if not (options.placeholders or options.first or options.rest):
        return spec
    ends = (shell_words("--first", options.first), shell_words("--rest", options.rest))
    program = spec.plan.program
    for name, meant in mistakes((program.script, *program.args, *ends[0], *ends[1])):
        raise UsageError(f"{{{name}}} in the arguments: no such placeholder; write {{{meant}}}")
    return spec._replace(workers=spec.workers._replace(ends=ends))
