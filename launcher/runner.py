"""The command dsrun: options -> hosts -> plan -> job -> report -> exit code."""

from __future__ import annotations

import os
from functools import partial

from . import __version__
from .common import entry
from .common.errors import DsrunError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cli.options import Options
    from .cli.parser import Command
    from .common.detach import Parent
    from .planning.planner import PlannedJob


def _run(argv: list[str]) -> int:
    from .cli.parser import configured, name_variables

    origins: Mapping[str, str] = {}
    try:
        command = configured(argv, os.environ)
        origins = command.origins
        if not command.options.quiet:
            entry.note(command.skipped)
        return _dispatch(command, argv)
    except DsrunError as error:
        error.args = (name_variables(str(error), argv, os.environ, origins),)
        raise


def _dispatch(command: Command, argv: list[str]) -> int:
    from .cli.options import of_roles

    text = _text(command, argv)
    if text:
        entry.write(text)
        return 0
    if command.given & of_roles():
        from .features.roles import command as roles

        return roles.run(command, argv)
    if command.options.on is not None:
        from .features.hold import command_on as on

        return on.run(command)
    if "on_busy" in command.given:
        raise UsageError("--on_busy: only with --on NAME, for a job on held nodes")
    if command.options.detach and not command.options.dry_run:
        from .features.detached import command as detach

        return detach.run(command, lambda parent: _start(command, argv, parent))
    return _start(command, argv)


def _start(command: Command, argv: list[str], parent: Parent | None = None) -> int:
    """Run a command line that starts a job; `parent` waits for a detached job to run."""
    from .backends import allocates

    if allocates(command.options.launcher):
        from .features.schedulers import command_salloc as salloc

        if salloc.is_needed(command.options, os.environ):
            words = salloc.argv(argv, command, os.environ)
            return _run_in_allocation(words, command.options, parent)
        return salloc.inside(command.options, partial(run, command, parent))
    return run(command, parent)


def _text(command: Command, argv: list[str]) -> str:
    """Return the output of a command line that starts nothing, "" for any other."""
    if command.help:
        from .cli.help import pages

        return pages.text(command.help)
    if command.version:
        return f"dsrun {__version__}\n"
    if command.options.trust is not None:
        if command.program:
            raise UsageError(
                f"--trust {command.options.trust}: starts nothing; leave out {command.program[0]},"
                " or trust the file for this command only: --trust_here"
            )
        from .cli.trust import trust
        from .common.text import one_line

        return f"trusted as it is now: {one_line(trust(command.options.trust, os.environ))}\n"
    if not command.options.show_config:
        return ""
    from .cli import parser, show_config

    typed, values = parser.parse(argv, {}).given, vars(command.options)
    origins, profiles = command.origins, command.profiles
    return show_config.text(values, command.given, typed, os.environ, origins, profiles)


def _run_in_allocation(argv: list[str], options: Options, parent: Parent | None) -> int:
    """Become salloc, which runs this command in an allocation; a dry run prints and returns."""
    from .features.schedulers import command_salloc as salloc

    if options.dry_run:
        entry.write(salloc.shown(argv, options))
        return 0
    return salloc.run(argv, options, parent)


def run(command: Command, parent: Parent | None = None) -> int:
    """Run a parsed command line; return the exit code.

    Args:
        command: the command line.
        parent: the process that waits until all workers of a detached job run.

    Raises:
        DsrunError: the command has failed; no process is left running.
    """
    from .planning import rendezvous, this_node
    from .planning.hosts import by_rank
    from .planning.planner import make_plan

    command = rendezvous.apply(command.with_torchruns_logs())
    command = this_node.apply(command, os.environ)
    planned, options = make_plan(command), command.options
    if options.dry_run:
        return _show(planned, options)
    if by_rank(options) and options.node_rank:
        from .features.join.command import join

        return join(planned, options, parent)
    from .head.job.start import launch, prepare

    # Start this machine's node launcher now: it gets ready during the rest of planning.
    start = None if options.container else prepare(planned.plan, planned.backend)
    from .planning.job import job_spec

    if parent is None:
        return launch(job_spec(planned, options), start)
    from .features.detached.runner_launch import run as run_detached

    return launch(job_spec(planned, options), start, partial(run_detached, parent, ()))


def _show(planned: PlannedJob, options: Options) -> int:
    from .head.job.start import commands
    from .planning import dry_run
    from .planning.job import job_spec

    spec = job_spec(planned, options)
    if spec.sync is not None:
        from .features.sync.runner_scan import checked

        checked(spec.sync)
    text = (dry_run.as_json if options.json else dry_run.as_table)(spec, commands(spec))
    entry.write(f"{text}\n")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run dsrun with these arguments (the process's own by default); return the exit code."""
    return entry.main(_run, argv)


def start() -> None:
    """Run as the whole process: the entry point of the command `dsrun`."""
    entry.start(_run)


if __name__ == "__main__":
    start()
