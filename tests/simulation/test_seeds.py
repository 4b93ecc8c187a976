"""Every commit is judged by other worlds, or by those that are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..support.checkout import CHECKOUT
from .scenario import WITH_COINCIDENCES, WITH_ELASTIC_ROLES, WITH_ENGINES, WITH_ROLES
from .seeds import (
    COINCIDENCES,
    ELASTIC,
    ENGINES,
    PLAYED,
    ROLES,
    WORLDS,
    commit_of,
    first_of,
    mixed,
    seeds,
)

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_seed_that_is_given_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_TEST_SEED", "7")
    first, elastic, engines = WITH_ROLES + 7, WITH_ELASTIC_ROLES + 7, WITH_ENGINES + 7
    coincidences = WITH_COINCIDENCES + 7
    assert seeds() == [
        *range(7, 7 + WORLDS),
        *range(first, first + ROLES),
        *range(elastic, elastic + ELASTIC),
        *range(engines, engines + ENGINES),
        *range(coincidences, coincidences + COINCIDENCES),
    ]
    monkeypatch.delenv("DSRUN_TEST_SEED")
    assert seeds()[0] == first_of(commit_of(CHECKOUT))


def test_seeds_are_mixed_as_the_tests_play_them() -> None:
    played = seeds()
    found = mixed(2 * len(played))
    assert sum(seed < WITH_ROLES for seed in found) == 2 * WORLDS
    assert sum(seed >= WITH_COINCIDENCES for seed in found) == 2 * COINCIDENCES
    assert found[:100] == mixed(100)


def test_a_commit_decides_the_seeds_among_those_that_were_played() -> None:
    firsts = {first_of(f"{number:x}" * 40) for number in range(16)}
    assert len(firsts) > 8
    assert all(0 <= first <= PLAYED - WORLDS for first in firsts)
    assert first_of("ffff" * 10) == first_of("ffff" * 10)


def test_without_git_the_seeds_are_the_first_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (commit_of(tmp_path), first_of("")) == ("", 0)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(CHECKOUT) == ""
