"""dsrun: options -> hosts -> plan -> job -> report -> exit code."""

from __future__ import annotations

import os

from . import __version__
from .common import entry
from .common.errors import DsrunError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .cli.options import Options
    from .cli.parser import Command


def _run(words: list[str]) -> int:
    from .cli.parser import name_variables

    try:
        return _follow(words)
    except DsrunError as error:
        error.args = (name_variables(str(error), words, os.environ),)
        raise


def _follow(words: list[str]) -> int:
    from .cli.parser import parse

    command = parse(words, os.environ)
    if command.help:
        from .cli.help import text

        entry.write(text())
        return 0
    if command.version:
        entry.write(f"dsrun {__version__}\n")
        return 0
    if command.options.launcher.lower() == "slurm":
        from .commands import salloc

        if salloc.is_needed(command.options, os.environ):
            return _in_an_allocation(salloc.argv(words, command, os.environ), command.options)
    return run(command)


def _in_an_allocation(argv: list[str], options: Options) -> int:
    """Run the same command once more by salloc; returns only from a dry run."""
    from .commands import salloc

    if options.dry_run:
        entry.write(salloc.shown(argv, options))
        return 0
    return salloc.run(argv, options)


def run(command: Command) -> int:
    """Do what a command line asks for; returns the exit code.

    Raises:
        DsrunError: it cannot be done; nothing is left running.
    """
    from .planning import cluster_environment, rendezvous
    from .planning.planner import arrange, by_rank

    command = rendezvous.completed(command.with_torchruns_logs())
    command = cluster_environment.completed(command, os.environ)
    arrangement = arrange(command)
    options = command.options
    if options.json and not options.dry_run:
        raise UsageError(
            "--json: only with --dry_run; --report_file writes the end of a job as JSON"
        )
    requeued = _requeued(options)
    if options.dry_run:
        from .head.run.start import show

        entry.write(f"{show(arrangement, options)}\n")
        return 0
    if by_rank(options) and options.node_rank:
        from .launch import serve_line
        from .node.join import join

        return serve_line(join(arrangement.plan, options))
    from .head.run.start import launch

    try:
        code = launch(arrangement, options)
    except DsrunError as error:
        _requeue(error.exit_code, requeued)
        raise
    _requeue(code, requeued)
    return code


def _requeued(options: Options) -> frozenset[int]:
    """Return the exit codes with which the job goes back to the queue."""
    if not options.requeue_on:
        return frozenset()
    from .head.run.requeue import codes

    return codes(options, os.environ)


def _requeue(code: int, requeued: frozenset[int]) -> None:
    if code in requeued:
        from .head.run.requeue import requeue

        requeue(code, os.environ)


def main(argv: Sequence[str] | None = None) -> int:
    """Run dsrun with these arguments (the process's own by default); returns the exit code."""
    return entry.main(_run, argv)


def start() -> None:
    """Run as a process of its own: what the command `dsrun` calls."""
    entry.start(_run)


if __name__ == "__main__":
    start()
