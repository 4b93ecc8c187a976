"""The files that options name for writing: none may be an input, or the user's own work.

A file may be written hours after the start, so everything is checked before.
"""

from __future__ import annotations

import os
from itertools import accumulate

from ..cli.options import all_options, written
from ..cli.parser import project_files
from ..common import output_file
from ..common.errors import UsageError
from .environment import env_files
from .folders import from_here, workdir
from .inventory import DEFAULT_HOSTFILE
from .policies import report_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..cli.options import Options

CHANGED = frozenset({"debug_file"})
"""Options of files that may have other contents, which are kept."""


def check(options: Options, inputs: Mapping[str, str]) -> tuple[str, ...]:
    """Check the files that a job writes; return notes on misleading file names.

    Args:
        options: the options of the job.
        inputs: descriptions for the user of the files that the job reads, by path.

    Raises:
        UsageError: a file cannot be written, or its present content would be lost.
    """
    known, notes = dict(inputs), []
    named = written(options)
    if report := report_file(options, os.environ):
        named["report_file"] = report
    for name, path in named.items():
        check_one(f"--{name}", path, known, kept=name in CHANGED)
        known[from_here(path)] = f"--{name}"
        notes.append(output_file.note(name, path))
    return tuple(filter(None, notes))


def check_one(option: str, path: str, others: Mapping[str, str], *, kept: bool = False) -> None:
    """Check a file that an option names for writing.

    Args:
        option: the option.
        path: the file.
        others: descriptions for the user of files that it must not be, by path.
        kept: whether its present content is kept.

    Raises:
        UsageError: the file cannot be written, is one of the others, or its present content
            would be lost.
    """
    output_file.check(option, path)
    full = from_here(path)
    for other, what in others.items():
        if output_file.is_same(full, other):
            raise UsageError(f"{option} {full}: is also {what}; name another file")
    if not kept:
        output_file.check_replaceable(option, path)


def inputs(options: Options, script: str = "") -> dict[str, str]:
    """Return the files that a command reads, by path, each as text for the user.

    Args:
        options: the options of the command.
        script: the program of its workers, or "".
    """
    found = dict.fromkeys(map(from_here, _usual(options, script)), "a file that dsrun reads")
    for name, row in all_options().items():
        if row.file == "read":
            value = getattr(options, name) or ()
            named = [value] if isinstance(value, str) else value
            found |= {from_here(one): f"--{name}" for one in named if one not in row.suggestions}
    if options.log_dir:
        found[os.path.join(workdir(options), options.log_dir)] = "--log_dir"
    return found | dict.fromkeys(_scripts(options, script), "the script")


def _usual(options: Options, script: str) -> Iterator[str]:
    """Yield the files that are read without being named."""
    yield from (path for path, _ in env_files(options))
    if options.hostfile is None:
        yield DEFAULT_HOSTFILE
    if not options.no_config:
        yield from project_files((os.path.dirname(script), ""))


def _scripts(options: Options, script: str) -> Iterator[str]:
    """Yield the places of a script, or of a module in the workers' folder."""
    if script:
        place = script.replace(".", "/") if options.module else script
        parents = accumulate(place.split("/"), os.path.join) if options.module else ()
        packages = [f"{one}/__init__.py" for one in parents]  # Python runs all of these
        names = [f"{place}.py", *packages] if options.module else [place]
        yield from (os.path.join(workdir(options), one) for one in (*names, f"{place}/__main__.py"))
