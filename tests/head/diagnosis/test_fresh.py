"""What the table makes of output that it had not seen: the tails of `fresh/`.

Where they come from, and what their labels mean, is in `fresh/README.md`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from .test_corpus import UNKNOWN, answer, read, text_of

TAILS = [
    (kind, tail) for kind, found in read(Path(__file__).parent / "fresh").items() for tail in found
]


Named = list[tuple[str, str, str, str, tuple[str, ...]]]


@pytest.fixture(scope="module")
def named() -> Named:
    """Return label, source, the class that is named, the sentence, and what it has to name."""
    found = []
    for kind, tail in TAILS:
        given, _, sentence = answer(text_of(tail), tail)
        found.append((kind, tail["source"], given, sentence, tuple(tail.get("names", ()))))
    return found


def test_none_is_named_wrongly(named: Named) -> None:
    assert [one for one in named if one[2] not in {one[0], UNKNOWN}] == []


def test_nine_of_ten_are_right_or_rightly_unknown(
    named: Named,
) -> None:
    missed = [one for one in named if one[2] != one[0]]
    assert len(missed) <= len(named) / 10, missed


def test_a_sentence_names_the_thing(
    named: Named,
) -> None:
    without = [one for one in named if one[3] and not all(name in one[3] for name in one[4])]
    assert len(without) <= len(named) / 50, without


def test_there_are_eighty_of_different_sources() -> None:
    sources = [tail["source"] for _, tail in TAILS]
    assert len(set(sources)) == len(sources) >= 80
