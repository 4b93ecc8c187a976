"""Who gets which place: each node its own, and another's only if nobody else wants it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.fleet.claims import Claim, Claims

from ...support.cost import LINEAR, growth

if TYPE_CHECKING:
    from collections.abc import Callable


def claim(speaker: int, place: int) -> Claim:
    return Claim(speaker, place, f"name {place}", f"token of {speaker}")


def judge(count: int, *claims: Claim) -> tuple[set[Claim], list[Claim]]:
    """Return the claims that are valid in the end, and those that were refused."""
    all_, refused = Claims(count), list[Claim]()
    accepted: list[Claim] = []
    for spoken in claims:
        judged = all_.add(spoken)
        accepted += judged.accepted
        for wrong, rival in judged.refused:
            assert (wrong.place, wrong) == (rival.place, wrong)
            assert wrong != rival
            refused.append(wrong)
    valid = {one for place in range(count) if (one := all_.valid(place))}
    assert sorted(valid) == sorted(accepted), "each is accepted once"
    return valid, refused


@pytest.mark.parametrize("seed", range(300))
def test_whoever_lies_and_in_any_order(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 6)
    places = [one if chance.random() < 0.5 else chance.randrange(count) for one in range(count)]
    claims = [claim(speaker, place) for speaker, place in enumerate(places)]
    spoken = chance.sample(claims, chance.randint(0, count))
    valid, refused = judge(count, *spoken)
    taken = [one.place for one in spoken]
    own = {one for one in spoken if one.speaker == one.place}
    alone = {one for one in spoken if taken.count(one.place) == 1}
    assert valid == (own | alone if len(spoken) == count else own)
    assert sorted(refused) == sorted(set(spoken) - own - alone)


def test_nodes_in_another_order_get_their_places_with_the_last_claim() -> None:
    claims = [claim(0, 1), claim(1, 2), claim(2, 0)]
    assert judge(3, *claims[:2]) == (set(), [])
    assert judge(3, *claims) == (set(claims), [])


def test_a_node_that_is_started_again_claims_once_more() -> None:
    claims = Claims(2)
    claims.add(claim(0, 1))
    claims.add(claim(1, 0))
    claims.remove(1)
    assert (claims.valid(1), claims.has(0), claims.has(1)) == (None, False, False)
    assert claims.valid(0) == claim(1, 0), "it stays where it is"
    again = claim(1, 1)._replace(token="new")
    assert claims.add(again) == ([again], [])


def test_an_impostor_does_not_get_the_place_of_a_node_that_is_away() -> None:
    claims = Claims(3)
    for rank in range(3):
        claims.add(claim(rank, rank))
    claims.remove(0)
    claims.remove(1)
    assert claims.add(claim(0, 1)) == ([], [])
    assert claims.valid(1) is None
    back = claim(1, 1)
    assert claims.add(back) == ([back], [(claim(0, 1), back)])


def shifted(count: int) -> None:
    judge(count, *(claim(one, (one + 1) % count) for one in range(count)))


def all_the_same(count: int) -> None:
    judge(count, *(claim(one, 0) for one in range(count)))


@pytest.mark.parametrize("work", [shifted, all_the_same])
def test_many_claims_cost_time_in_proportion(work: Callable[[int], None]) -> None:
    assert growth(work, 500) < LINEAR
