"""Plans the job of a program as the command line is planned: options in, JobSpec out.

Nothing is started, printed or changed in the calling process, and every error is an exception.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from ..backends import allocates
from ..cli.parser import name_variables, parse
from ..common.errors import DsrunError, UsageError
from ..node.workers.calls import CALL
from ..planning import rendezvous, this_node
from .errors import LaunchError
from .options import arguments, check_arguments, words
from .payload import name_of, payload_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ..cli.parser import Command
    from ..specs.job import JobSpec

    Target = str | os.PathLike[str] | Callable[..., Any]

OPTIONS = "docs/python.md"
"""The documentation of a program's options."""

FOR_SCRIPTS = ("module", "no_python", "run_path", "local_rank")
"""Options without a meaning for a function."""

SCHEDULED = "--launcher slurm: only inside a Slurm job; start the program with salloc or sbatch"

EVERYWHERE = "{place}: this program already runs on every node; start it on one of them"


def plan(
    target: Target,
    args: Iterable[object],
    kwargs: Mapping[str, object] | None,
    options: Mapping[str, object],
    planned: Callable[[Sequence[str]], JobSpec],
) -> JobSpec:
    """Return the job that runs a script with arguments, or calls a function with them.

    Args:
        target: the path of a script, the name of a module (with `module`), or a function.
        args: its arguments.
        kwargs: keyword arguments of a function.
        options: options of dsrun.
        planned: returns the job of a command line.

    Raises:
        LaunchError: the job cannot be planned, or the function cannot be sent.
    """
    check_arguments(args)
    if not callable(target):
        if kwargs:
            raise LaunchError("kwargs: only for a function; a script takes a list of arguments")
        return planned([*words(options), "--", os.fspath(target), *arguments(args)])
    payload = payload_of(target, tuple(args), dict(kwargs or {}))
    fixed = [name for name in FOR_SCRIPTS if options.get(name)]
    if fixed:
        raise LaunchError(f"{fixed[0]}: only for a script, not for a function")
    # The name is for people who list jobs; workers are not given it.
    spec = planned([*words(options), "--", CALL, name_of(target)])
    return spec._replace(payload=payload)


@contextmanager
def as_launch_error(argv: Sequence[str]) -> Iterator[None]:
    """Turn errors of planning a command line into a program's errors, with equal messages."""
    try:
        yield
    except DsrunError as error:
        text = name_variables(str(error), argv, os.environ)
        raise LaunchError(text, error.exit_code) from None


def planned(argv: Sequence[str]) -> JobSpec:
    """Return the job of a command line, on its own nodes.

    Raises:
        LaunchError: the command would reject the words.
    """
    with as_launch_error(argv):
        return _planned(argv)


def parsed(argv: Sequence[str]) -> Command:
    """Parse a command line for a program: a script gets no local rank by default.

    Raises:
        UsageError: the error of `parse`.
    """
    command = parse(argv, os.environ, OPTIONS)
    options = command.options
    silent = options.no_local_rank or not options.local_rank
    return command._replace(options=options.changed(no_local_rank=silent))


def _planned(argv: Sequence[str]) -> JobSpec:
    command = parsed(argv)
    if allocates(command.options.launcher):
        from ..features.schedulers import command_salloc as salloc

        if salloc.is_needed(command.options, os.environ):
            raise UsageError(SCHEDULED)
    command = rendezvous.apply(command.with_torchruns_logs())
    command = this_node.apply(command, os.environ)
    if command.joined and command.rendezvous is None:
        raise UsageError(EVERYWHERE.format(place=command.joined))
    from ..planning.job import plan_job

    return plan_job(command)
