"""dsrun --detach: the job continues in its own process, without the terminal."""

from __future__ import annotations

import os

from ...backends import allocates
from ...common.detach import detached
from ...common.errors import UsageError
from ...common.output_file import OWN_DESCRIPTORS, STREAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...cli.options import Options
    from ...cli.parser import Command
    from ...common.detach import Parent

FILES = ("report_file", "metrics_file")
"""Options that name a file which is written after the terminal is gone."""


def run(command: Command, start: Callable[[Parent], int]) -> int:
    """Run a command line in the background; return in both processes with an exit code.

    Args:
        command: the command line.
        start: runs the job, and tells the parent once all workers run.

    Raises:
        DsrunError: an option needs the terminal; or, in the child, why the job has failed.
    """
    check(command.options)

    def program(parent: Parent) -> int:
        _leave_input()
        return start(parent)

    return detached(program, hands_over=_asks_for_allocation(command.options))


def check(options: Options) -> None:
    """Check that nothing needs the terminal that the job leaves.

    Raises:
        UsageError: an option does.
    """
    if options.stdin != "none":
        raise UsageError(
            f"--stdin {options.stdin}: not with --detach, as the job has no standard input"
        )
    for name in FILES:
        path = getattr(options, name)
        if path in STREAMS or (path and os.path.dirname(path) in OWN_DESCRIPTORS):
            raise UsageError(
                f"--{name} {path}: not with --detach, as the job leaves the terminal; name a file"
            )


def _asks_for_allocation(options: Options) -> bool:
    """Return whether the job runs in a program that holds an allocation for the job."""
    if not allocates(options.launcher):
        return False
    from ..schedulers import command_salloc as salloc

    return salloc.is_needed(options, os.environ)


def check_held(options: Options) -> None:
    """Check the options of a detached job on held nodes.

    Raises:
        UsageError: an option needs the terminal, or this process.
    """
    check(options)
    if options.requeue_on:
        raise UsageError(
            "--requeue_on: not with --on and --detach: no process waits for the job here"
        )


def _leave_input() -> None:
    """Read nothing from the terminal, neither here nor in programs started from here."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
