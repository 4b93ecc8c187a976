"""dsrun --roles FILE, and several programs on the command line: one job of several roles."""

from __future__ import annotations

import os
from functools import partial

from ...cli.parser import configured
from ...common import entry
from ...common.errors import UsageError
from ...common.records import NamedTuple
from ...planning import rendezvous
from ...planning.hosts import by_rank
from ...specs.program import NOTHING
from ..join.command import join
from . import plan_command_line as command_line
from . import plan_file as file
from . import plan_spec as spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...backends.base import StartCommand as NodeCommand
    from ...cli.options import Options
    from ...cli.parser import Command
    from ...common.detach import Parent
    from ...specs.roles import RolesSpec
    from .plan_table import RoleTable


class RolesCommand(NamedTuple):
    """A command line with roles.

    Attributes:
        job: the options of the whole job.
        tables: its roles, as they are written.
        words: the number of words of the command line for the whole job.
    """

    job: Command
    tables: list[RoleTable]
    words: int


def run(command: Command, argv: Sequence[str]) -> int:
    """Run a command line with roles; return the exit code.

    Args:
        command: the command line, parsed as if there were one program.
        argv: its words.

    Raises:
        DsrunError: the command has failed; nothing is left running.
    """
    given = read(command, argv)
    options = given.job.options
    spec.check(given.job)
    if options.on is not None:
        from ..hold import command_on as on

        return on.run_roles(given.job, given.tables)
    if options.detach and not options.dry_run:
        return _detached(given, argv)
    return _start(given, argv)


def _detached(given: RolesCommand, argv: Sequence[str]) -> int:
    """Run a job in the background; return in both processes with an exit code."""
    for table in given.tables:
        if table.get("stdin") != "none":
            raise table.error("stdin", "not with --detach, as the job has no standard input")
    from ..detached import command as detach

    return detach.run(given.job, lambda parent: _start(given, argv, parent))


def _start(given: RolesCommand, argv: Sequence[str], parent: Parent | None = None) -> int:
    """Run a job; report to `parent` when a detached job runs."""
    options = given.job.options
    from ..schedulers import command_salloc as salloc

    if salloc.is_needed(options, os.environ):
        return _in_allocation(given, argv, parent)
    return salloc.inside(options, partial(_run, given, parent))


def _run(given: RolesCommand, parent: Parent | None) -> int:
    from ...planning import this_node

    options = given.job.options
    job = this_node.apply(rendezvous.apply(given.job), os.environ)
    spec.check(job)
    nodes = spec.find_nodes(job)
    if by_rank(job.options) and job.options.node_rank and not options.dry_run:
        return join(spec.whole(job, nodes), job.options, parent)
    planned = spec.roles_spec(job, given.tables, nodes)
    if options.dry_run:
        from ...head.job.start import commands

        return show(planned, commands(planned.job), options)
    from ...head.job.start import launch, prepare
    from .runner_launch import programs_of

    start, programs = prepare(planned.job.plan, planned.job.settings), programs_of(planned)
    if parent is None:
        return launch(planned.job, start, programs=programs)
    from ..detached.runner_launch import run as run_detached

    return launch(planned.job, start, partial(run_detached, parent, planned.roles), programs)


def read(command: Command, argv: Sequence[str]) -> RolesCommand:
    """Return the roles of a command line, and the options of its whole job.

    Raises:
        UsageError: both ways are used, or one is not used correctly.
    """
    options = command.options
    if options.program is None:
        if options.roles is None:
            spec.check(command)
        if command.program:
            raise UsageError(
                f"--roles {options.roles}: the file names the programs; leave out"
                f" {command.program[0]}"
            )
        return RolesCommand(command, file.read(options.roles or ""), len(argv))
    if options.roles is not None:
        raise UsageError(f"--roles {options.roles}: not with --program; use one of the two")
    job_words, programs = command_line.parts(argv, command.words)
    # The first script tells which configuration files count.
    job = configured([*job_words, "--", *command.program[:1]], os.environ)
    if not job.options.quiet:
        entry.note(text for text in job.skipped if text not in command.skipped)
    return RolesCommand(job, command_line.tables(programs), len(job_words))


def show(planned: RolesSpec, commands: list[NodeCommand], options: Options) -> int:
    """Print the plan, and return 0.

    Raises:
        UsageError: a folder cannot be synced.
    """
    from . import plan_dry_run as dry_run

    for role in planned.roles:
        if role.job.sync is not None:
            from ..sync.runner_scan import checked

            checked(role.job.sync)
    text = (dry_run.as_json if options.json else dry_run.as_table)(planned, commands)
    entry.write(f"{text.rstrip()}\n")
    return 0


def _in_allocation(given: RolesCommand, argv: Sequence[str], parent: Parent | None) -> int:
    """Become salloc, which runs this command in an allocation; a dry run returns."""
    from ..schedulers import command_salloc as salloc

    job = given.job
    if job.options.num_nodes is None and job.options.host is None:
        nodes = sum(
            table.get("num_nodes") or 0 for table in given.tables if not table.get("beside")
        )
        if nodes:
            job = job._replace(options=job.options.changed(num_nodes=nodes))
    job = job._replace(words=given.words, program=(NOTHING,))
    words = salloc.argv(argv, job, os.environ)
    if job.options.dry_run:
        entry.write(salloc.shown(words, job.options))
        return 0
    return salloc.run(words, job.options, parent)
