"""What the table makes of output for which no row was added: the tails of `unseen/`."""

from __future__ import annotations

from pathlib import Path

from .test_corpus import UNKNOWN, answer, read, text_of

NAMED = [
    (kind, tail["source"], answer(text_of(tail), tail)[0])
    for kind, found in read(Path(__file__).parent / "unseen").items()
    for tail in found
]


def test_none_is_named_wrongly() -> None:
    assert [one for one in NAMED if one[2] not in {one[0], UNKNOWN}] == []


def test_nine_of_ten_are_right_or_rightly_unknown() -> None:
    missed = [one for one in NAMED if one[2] != one[0]]
    assert len(missed) <= len(NAMED) / 10, missed
