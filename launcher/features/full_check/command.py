"""dsrun-check: find problems of nodes, without a job."""

from __future__ import annotations

import os

from ...cli.tool_parser import configured, is_answered
from ...common import entry
from ...common.errors import UsageError, conflict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...cli.tool_parser import ToolCommand


MIXING = ("promises",)
"""Options after which words and options may come in any order."""


def run(words: list[str]) -> int:
    """Run the command with these arguments; return the exit code.

    Raises:
        UsageError: an option is unknown or has a bad value.
        NodeError: the nodes of a hold are lost.
    """
    command = configured("dsrun-check", words, os.environ, mixing=MIXING)
    if is_answered("dsrun-check", command):
        return 0
    _check(command)
    entry.note(command.notes)
    if command.own["promises"]:
        from ..promises import command as check_promises

        check_promises.check(command)
        return check_promises.execute(command)
    from .command_run import execute

    return execute(command)


def start() -> None:
    """Run the command `dsrun-check` and exit."""
    entry.start(run)


def _check(command: ToolCommand) -> None:
    """Check that the options fit together.

    Raises:
        UsageError: the options conflict.
    """
    own = command.own
    shown = [f"--{name}" for name in ("compare", "report") if own[name]]
    if len(shown) > 1:
        raise conflict(*shown)
    if own["compare"] and own["json"]:
        raise conflict("--compare", "--json")
    if own["dry_run"] and not own["promises"]:
        raise UsageError("--dry_run: only with --promises; without it, nothing is started on nodes")
    if own["svg"] and not own["full"]:
        raise UsageError("--svg: only with --full; it draws the matrices of that check")
    if own["svg"]:
        from ...common import output_file
        from ...planning import output_files

        read = output_files.inputs(command.options, next(iter(command.rest), ""))
        output_files.check_one("--svg", own["svg"], read)
        if not command.options.quiet:
            entry.note(filter(None, [output_file.note("svg", own["svg"])]))


if __name__ == "__main__":
    start()
