"""What the table makes of output that it was not written for: the tails of four collections.

Where they come from, and what their labels mean, is in the README of each.
"""

from __future__ import annotations

import pytest

from .scored import missed, scored, wrong

ALL = ("independent", "forms", "fresh", "unseen")


@pytest.mark.parametrize("folder", ALL)
def test_none_is_named_wrongly(folder: str) -> None:
    assert wrong(scored(folder)) == []


@pytest.mark.parametrize("folder", ALL)
def test_nine_of_ten_are_right_or_rightly_unknown(folder: str) -> None:
    tails = scored(folder)
    assert len(missed(tails)) <= len(tails) / 10, missed(tails)


@pytest.mark.parametrize("folder", ["forms", "fresh"])
def test_a_sentence_names_the_thing(folder: str) -> None:
    tails = scored(folder)
    named = [one for one in tails if one.sentence]
    without = [one for one in named if not all(name in one.sentence for name in one.names)]
    assert len(without) <= len(tails) / 50, without


@pytest.mark.parametrize(("folder", "least"), [*zip(ALL, (100, 100, 80, 70), strict=True)])
def test_there_are_enough_of_different_sources(folder: str, least: int) -> None:
    sources = [one.source for one in scored(folder)]
    assert len(set(sources)) == len(sources) >= least
