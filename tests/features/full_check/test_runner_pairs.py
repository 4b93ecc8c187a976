"""Rounds of disjoint pairs."""

from __future__ import annotations

from itertools import combinations

import pytest

from dsrun.launcher.features.full_check.runner_pairs import ALL, SOME, rounds


def names(count: int) -> list[str]:
    return [f"n{at}" for at in range(count)]


@pytest.mark.parametrize("count", range(ALL + 1))
def test_every_pair_of_few_nodes_is_met_once(count: int) -> None:
    made = rounds(names(count))
    met = [pair for one in made for pair in one]
    assert sorted(met) == sorted(combinations(names(count), 2))
    assert len(made) == (0 if count < 2 else count - 1 + count % 2)


@pytest.mark.parametrize("count", [17, 18, 64, 1000, 1001])
def test_many_nodes_are_regrouped_a_few_times(count: int) -> None:
    made = rounds(names(count))
    met = [frozenset(pair) for one in made for pair in one]
    assert len(made) == SOME
    assert len(set(met)) == len(met)
    degrees = [sum(name in pair for pair in met) for name in names(count)]
    assert min(degrees) >= SOME - 1


@pytest.mark.parametrize("count", [2, 5, 16, 64])
def test_no_node_is_in_two_pairs_of_a_round(count: int) -> None:
    for one in rounds(names(count)):
        players = [name for pair in one for name in pair]
        assert len(players) == len(set(players)) == count - count % 2
