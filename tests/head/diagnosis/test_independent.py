"""What the table makes of jobs that it was not written for: the tails of `independent/`.

Where they come from, and what their labels mean, is in `independent/README.md`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .test_corpus import UNKNOWN, answer, read, text_of

TAILS = [
    (kind, tail)
    for kind, found in read(Path(__file__).parent / "independent").items()
    for tail in found
]


@pytest.fixture(scope="module")
def named() -> list[tuple[str, str, str]]:
    """Return label, source, and the class that is named, of each tail."""
    return [(kind, tail["source"], answer(text_of(tail), tail)[0]) for kind, tail in TAILS]


def test_none_is_named_wrongly(named: list[tuple[str, str, str]]) -> None:
    assert [one for one in named if one[2] not in {one[0], UNKNOWN}] == []


def test_nine_of_ten_are_right_or_rightly_unknown(named: list[tuple[str, str, str]]) -> None:
    missed = [one for one in named if one[2] != one[0]]
    assert len(missed) <= len(named) / 10, missed


def test_there_are_a_hundred_of_different_threads() -> None:
    sources: list[Any] = [tail["source"] for _, tail in TAILS]
    assert len(set(sources)) == len(sources) >= 100
