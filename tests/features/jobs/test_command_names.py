"""Which job a word means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.jobs.command_names import NamedSocket, by_program, choose

if TYPE_CHECKING:
    from collections.abc import Sequence

EARLY, LATE = (
    NamedSocket("job", "20261122-101112-abcdef"),
    NamedSocket("job", "20261122-150000-123456"),
)
HOLD = NamedSocket("hold", "cosy")
ALL = (EARLY, LATE, HOLD)


def newest(jobs: Sequence[NamedSocket]) -> NamedSocket | None:
    return jobs[0] if jobs else None


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        (EARLY.name, ALL, EARLY),
        ("abcdef", ALL, EARLY),
        ("150000", ALL, LATE),
        ("cosy", ALL, HOLD),
        ("os", ALL, HOLD),
        ("last", ALL, EARLY),
        ("last", [NamedSocket("hold", "the-last")], NamedSocket("hold", "the-last")),
        (None, [EARLY], EARLY),
        (None, [EARLY, HOLD], EARLY),
        (None, [HOLD], HOLD),
        ("a", [NamedSocket("job", "a"), NamedSocket("job", "ab")], NamedSocket("job", "a")),
    ],
)
def test_what_a_word_means(
    word: str | None, known: Sequence[NamedSocket], meant: NamedSocket
) -> None:
    assert choose(word, known, newest) == meant


@pytest.mark.parametrize(
    ("word", "known", "why"),
    [
        (None, [], "no job of yours is running on this machine"),
        (None, ALL, f"several jobs are running; name one: {EARLY.name}, {LATE.name}"),
        ("2026", ALL, f"2026: matches the names of several jobs; name one: {EARLY.name}"),
        ("x", ALL, f"no job x on this machine; running: {EARLY.name}, {LATE.name}, cosy"),
        ("x", [], "no job x on this machine; running: none"),
        ("last", [], "no job last on this machine; running: none"),
        ("", ALL, "no job  on this machine"),
    ],
)
def test_a_word_that_means_nothing_or_too_much(
    word: str | None, known: Sequence[NamedSocket], why: str
) -> None:
    with pytest.raises(UsageError, match=f"^dsrun-job: {why}"):
        choose(word, known, newest)


def test_of_many_names_a_few_are_listed() -> None:
    many = [NamedSocket("job", f"j{number}") for number in range(100)]
    with pytest.raises(UsageError, match=r"running: j94, .*, j99, and 94 more$"):
        choose("x", many, newest)


@pytest.mark.parametrize(
    ("verb", "word", "found"),
    [
        ("top", "t.py", "a"),
        ("top", "/data/t.py", "a"),
        ("", "t.py", "a"),
        ("top", "--lr", "--lr"),
        ("top", "none.py", "none.py"),
        ("kill", "none.py", "none.py"),
        ("kill", "t.py", "dsrun-job kill: t.py is run by a; name the job"),
        ("top", "s.py", "dsrun-job top: s.py is run by b, c; name the job"),
        ("", "s.py", "dsrun-job: s.py is run by b, c; name the job"),
    ],
)
def test_the_job_of_a_program(verb: str, word: str, found: str) -> None:
    programs = {"a": "/data/t.py --lr 1", "b": "s.py", "c": "'s.py' x"}
    try:
        said = by_program(verb, word, [], lambda _: programs, reads=verb != "kill")
    except UsageError as error:
        said = str(error)
    assert said == found
