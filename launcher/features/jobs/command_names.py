"""Find the jobs and holds of this user on this machine, and the one that a word means."""

from __future__ import annotations

from contextlib import contextmanager

from ...common.errors import DsrunError, UsageError
from ...common.records import NamedTuple
from ...control import local
from ...control.local_client import LocalClient, connect, running

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

PATIENCE = 10.0
"""Seconds for a job to answer."""

LOOK = 0.1
"""Seconds between two checks for news of a job that does not report any."""

LAST = "last"
"""The word for the newest job."""

NAMED = 6
"""Names in a message."""


class NamedSocket(NamedTuple):
    """The socket of a job or of a hold.

    Attributes:
        kind: `job` or `hold`.
        role: the requested role of the job; "" for all.
    """

    kind: str
    name: str
    role: str = ""


def places() -> list[NamedSocket]:
    """Return all jobs and holds of this user that run now on this machine."""
    return [NamedSocket(kind, name) for kind in (local.JOB, local.HOLD) for name in running(kind)]


def choose(
    word: str | None,
    known: Sequence[NamedSocket],
    newest: Callable[[Sequence[NamedSocket]], NamedSocket | None],
) -> NamedSocket:
    """Return the place that a word means: a name, an unambiguous part of one, or `last`.

    Without a word it is the only job, or the only hold if there is no job.

    Args:
        word: the word that the user has typed, or None.
        known: all jobs and holds.
        newest: returns the newest of some jobs; None if none answers.

    Raises:
        UsageError: there is no match, or more than one.
    """
    jobs = [one for one in known if one.kind == local.JOB]
    if word is None:
        return _only(jobs or known, "several jobs are running")
    last = newest(jobs) if word == LAST else None
    if last is not None:
        return last
    exact = [one for one in known if one.name == word]
    found = exact or [one for one in known if word and word in one.name]
    if not found:
        raise UsageError(f"dsrun-job: no job {word[:40]} on this machine; running: {named(known)}")
    return _only(found, f"{word[:40]}: matches the names of several jobs")


def by_program(
    verb: str,
    word: str,
    known: Sequence[NamedSocket],
    programs: Callable[[Sequence[NamedSocket]], dict[str, str]],
    *,
    reads: bool = True,
) -> str:
    """Return the job whose program a word names, else the word itself.

    Args:
        verb: the action on the job, for a message; "" for none.
        word: the word that the user has typed.
        known: all jobs and holds.
        programs: returns the programs of jobs with their arguments, by the names of the jobs.
        reads: whether the action changes nothing, so that a program's name is enough.

    Raises:
        UsageError: several jobs run the program, or the verb needs the name of the job.
    """
    jobs = [one for one in known if one.kind == local.JOB]
    found = [name for name, program in programs(jobs).items() if _runs(program, word)]
    if len(found) == 1 and reads:
        return found[0]
    if found:
        shown = ", ".join(found[:NAMED])
        start = f"dsrun-job {verb}".rstrip()
        raise UsageError(f"{start}: {word[:40]} is run by {shown}; name the job")
    return word


def _runs(program: str, word: str) -> bool:
    """Return whether a word is the program of a command, with or without its folder."""
    first = program.split(" ", 1)[0].strip("'")
    return word in {first, first.rpartition("/")[2]}


def _only(found: Sequence[NamedSocket], otherwise: str) -> NamedSocket:
    if not found:
        raise UsageError("dsrun-job: no job of yours is running on this machine")
    if len(found) > 1:
        raise UsageError(f"dsrun-job: {otherwise}; name one: {named(found)}")
    return found[0]


def named(some: Iterable[NamedSocket]) -> str:
    """Return the newest names, for a message."""
    names = [one.name for one in some]
    more = [f"and {len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[-NAMED:], *more]) or "none"


def open_place(place: NamedSocket) -> LocalClient:
    """Return a connection.

    Raises:
        UsageError: the job or hold has just ended.
    """
    client = connect(place.kind, place.name)
    if client is None:
        raise UsageError(f"dsrun-job: {place.kind} {place.name} has ended")
    if place.role:
        client.common = {"role": place.role}
    return client


def ask(place: NamedSocket, request: dict[str, object]) -> dict[str, object]:
    """Ask once, and return the answer.

    Raises:
        DsrunError: the job refuses, does not answer, or has ended.
    """
    with open_place(place) as client, named_in_errors(place):
        return client.ask(request, seconds=PATIENCE)


@contextmanager
def named_in_errors(place: NamedSocket) -> Iterator[None]:
    """Add the name of the job or hold to its errors, and its version if that differs."""
    try:
        yield
    except DsrunError as error:
        from ...control.versions import another

        other = another(place.kind, place.name)
        error.args = (f"dsrun-job: {place.kind} {place.name}: {error}{other}",)
        raise
