"""dsrun-job --complete: candidates for the word at the cursor, for the shells' completion.

The arguments are the kinds of values, joined by commas; the word as far as typed; and the previous
words of the command line. A line of the answer is a whole word. It has no character that is special
to a shell, even if somebody else has chosen the name.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import partial

from ...common import entry
from ...common.errors import DsrunError
from ...control import local

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}")
"""Names that are offered; others must be typed."""

SAFE_LIST = re.compile(r"(?:[A-Za-z0-9_.:+,-]+[@,])?")
"""Text before the last item of a list of hosts: `n1:0,2@`, or `n1:4,`."""

MOST = 1000
"""Most words to offer."""

PATIENCE = 0.5
"""Seconds for running jobs to report their programs."""


def run(words: list[str]) -> int:
    """Print the candidates at the cursor; nothing, and no error, if they cannot be found."""
    kinds, typed, *before = [*words[1:], "", ""][: max(2, len(words) - 1)]
    entry.write("".join(f"{word}\n" for word in offered(kinds, typed, before)))
    return 0


def start() -> None:
    """Run the completion as the whole process, and exit."""
    entry.start(run)


def offered(kinds: str, typed: str, before: Sequence[str]) -> list[str]:
    """Return the possible words at the cursor, without duplicates.

    Args:
        kinds: the kinds of values, joined by commas; unknown kinds have no values.
        typed: the word as far as typed.
        before: the words between the command and `typed`, in the shell's form.
    """
    known = dict[str, None]()
    for kind in kinds.split(","):
        if find := KINDS.get(kind):
            head = _list_before(typed) if kind == "hosts" else ""
            with suppress(DsrunError, OSError, ValueError):
                known.update((f"{head}{name}", None) for name in find(before) if _is_safe(name))
    return [word for word in known if word.startswith(typed)][:MOST]


def _is_safe(name: str) -> bool:
    return SAFE.fullmatch(name) is not None


def _list_before(typed: str) -> str:
    """Return the text of a list of hosts before its last item, "" if it is not such a list."""
    head = typed[: max(typed.rfind("@"), typed.rfind(",")) + 1]
    return head if SAFE_LIST.fullmatch(head) else ""


# -- jobs and holds ---------------------------------------------------------------------------


def _running(kind: str, _before: Sequence[str]) -> Iterator[str]:
    """Yield the names of running jobs or holds, and the word for the newest."""
    from ...control.local_client import running

    names = running(kind)
    yield from names
    if names:
        yield "last"


def _programs(_before: Sequence[str]) -> Iterator[str]:
    from ..jobs.command_names import places
    from ..jobs.command_read import read

    for job in read(places(), PATIENCE).jobs:
        yield _name(job.program)


def _ended(_before: Sequence[str]) -> Iterator[str]:
    """Yield the ids of detached jobs that do not run, the newest first, and their programs."""
    from ...control.local_client import running
    from ..detached.runner_job_folder import find_all, root

    live = {*running(local.JOB)}
    kept, damaged = find_all(root(os.environ))
    gone = [one.about for one in kept if one.about.job_id not in live]
    yield from (one.job_id for one in reversed(gone))
    yield from (one.job_id for one in damaged)
    yield from (_name(one.program) for one in gone)


def _name(program: str) -> str:
    """Return the file of a program in a shell's words; in quotes if no file can be offered."""
    return program.split(" ", 1)[0].rpartition("/")[2]


def _signals(_before: Sequence[str]) -> Iterator[str]:
    import signal

    for one in signal.Signals:
        yield one.name.removeprefix("SIG")
    yield from signal.Signals.__members__


# -- files ------------------------------------------------------------------------------------


def _profiles(_before: Sequence[str]) -> Iterator[str]:
    """Yield the profiles of the configuration files; nothing that they set is used."""
    from ...cli.config_source import source
    from ...cli.parser import own_files, project_files
    from ...cli.toml_file import read

    for path in (*own_files(os.environ), *project_files([""])):
        with suppress(DsrunError):
            profiles = read(path, source(path).data)[0].get("profile")
            yield from profiles if isinstance(profiles, dict) else ()


def _hosts(before: Sequence[str]) -> Iterator[str]:
    """Yield the typed hosts, or the hosts of the typed or set hostfile."""
    from ...common import files
    from ...resources.hostfile import parse_hostfile, parse_hosts

    listed = _value(before, "--host") or os.environ.get("DSRUN_HOST")
    if listed:
        found = parse_hosts(listed)
    else:
        path = _value(before, "-H", "--hostfile") or os.environ.get("DSRUN_HOSTFILE")
        path = path or _set(_value(before, "--profile"))
        found = parse_hostfile(files.read(path, pipes=False), path)
    yield from (one.name for one in found)


def _value(before: Sequence[str], *names: str) -> str:
    """Return the value that an option has on the command line, or ""."""
    found = ""
    for at, word in enumerate(before):
        name, attached, value = word.partition("=")
        if name in names:
            found = value if attached else "".join(before[at + 1 : at + 2])
    return _unquoted(found)


def _unquoted(word: str) -> str:
    """Return a word without its quotes and its `~`; nothing else in it is expanded."""
    import shlex

    with suppress(ValueError):
        word = "".join(shlex.split(word)[:1])
    return os.path.expanduser(word)


def _set(profile: str) -> str:
    """Return the hostfile that the configuration files set, if they are trusted, or the default."""
    from ...cli.options import Options
    from ...cli.parser import config_of
    from ...planning.inventory import DEFAULT_HOSTFILE

    config = None
    with suppress(DsrunError):
        config = config_of(Options(profile=profile), frozenset(), os.environ)
    return str((config and config.values.get("hostfile")) or DEFAULT_HOSTFILE)


KINDS: dict[str, Callable[[Sequence[str]], Iterable[str]]] = {
    "jobs": partial(_running, local.JOB),
    "programs": _programs,
    "ended": _ended,
    "holds": partial(_running, local.HOLD),
    "signals": _signals,
    "profiles": _profiles,
    "hosts": _hosts,
}
"""Functions that find the values of each kind, given the words before the cursor."""
