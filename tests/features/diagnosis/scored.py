"""Collections of tails, and what the table makes of them: class, and things that are named."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

from .test_corpus import UNKNOWN, answer, read, text_of


class Scored(NamedTuple):
    """A tail, and the answer.

    Attributes:
        label: its class.
        source: what prints such a tail.
        given: the class that the table gives.
        sentence: what it says.
        names: what a sentence has to name.
    """

    label: str
    source: str
    given: str
    sentence: str
    names: tuple[str, ...]


@cache
def scored(folder: str) -> tuple[Scored, ...]:
    """Return the tails in a folder beside this file, each with its answer."""
    found = []
    for label, tails in read(Path(__file__).parent / folder).items():
        for tail in tails:
            given, _, sentence = answer(text_of(tail), tail)
            names = tuple(tail.get("names", ()))
            found.append(Scored(label, tail["source"], given, sentence, names))
    return tuple(found)


def wrong(tails: tuple[Scored, ...]) -> list[Scored]:
    """Return those to which the table gives another class."""
    return [one for one in tails if one.given not in {one.label, UNKNOWN}]


def missed(tails: tuple[Scored, ...]) -> list[Scored]:
    """Return those that are not right, nor rightly `unknown`."""
    return [one for one in tails if one.given != one.label]
