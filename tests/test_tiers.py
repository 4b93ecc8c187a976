"""Which variants of a test are run in which tier."""

from __future__ import annotations

from itertools import product

import pytest

from .support import tiers
from .support.tiers import TIERS, Variant, choose

EVERYWHERE = ("ssh", "openssh", "pdsh", "local", "openmpi4", "openmpi5", "mpich4", "impi", "slurm")
NAMES = ("one", "two", "three", "four")


def over(launchers: tuple[str, ...], names: tuple[str, ...]) -> list[Variant]:
    """All combinations of these launchers and names."""
    return [
        frozenset({("launcher", where), ("name", name)})
        for where, name in product(launchers, names)
    ]


@pytest.mark.parametrize("launchers", [EVERYWHERE, ("ssh", "openssh", "pdsh"), ("impi", "slurm")])
def test_the_last_tier_has_everything(launchers: tuple[str, ...]) -> None:
    variants = over(launchers, NAMES)
    assert choose(variants, "all") == list(range(len(variants)))


def chosen(launchers: tuple[str, ...], tier: str, turn: int, names: tuple[str, ...] = NAMES) -> str:
    """Which variants are chosen, in words."""
    variants = over(launchers, names)
    found = [dict(variants[place]) for place in choose(variants, tier, turn)]
    return ", ".join(f"{one['launcher']} {one['name']}" for one in found)


@pytest.mark.parametrize(
    ("launchers", "turn", "first", "both"),
    [
        (EVERYWHERE, 0, "ssh one", "ssh one, openmpi5 two"),
        (EVERYWHERE, 1, "openmpi5 one", "ssh two, openmpi5 one"),
        (EVERYWHERE, 2, "pdsh one", "pdsh one, openmpi5 two"),
        (("local", "ssh", "openmpi4"), 0, "ssh one", "local two, ssh one"),
        (("ssh", "openssh", "pdsh"), 0, "ssh one", "ssh one, openssh two"),
        (("ssh", "openssh", "pdsh"), 1, "openssh one", "ssh two, openssh one"),
        (("ssh", "openssh", "pdsh"), 2, "pdsh one", "ssh two, pdsh one"),
        (("local", "ssh"), 1, "ssh one", "local two, ssh one"),
        (("local",), 1, "local one", "local one, local two"),
    ],
)
def test_launchers_of_two_kinds_stand_for_others_and_tests_take_turns(
    launchers: tuple[str, ...], turn: int, first: str, both: str
) -> None:
    assert (chosen(launchers, "test", turn), chosen(launchers, "ci", turn)) == (first, both)


@pytest.mark.parametrize("turn", range(3))
def test_a_test_that_differs_by_the_launcher_alone_is_run_once(turn: int) -> None:
    once = chosen(EVERYWHERE, "test", turn, ("one",))
    assert ("," in once, chosen(EVERYWHERE, "ci", turn, ("one",))) == (False, once)


def test_one_engine_of_each_family_stands_for_it() -> None:
    engines = ("openmpi4", "openmpi5", "mpich4", "mpich5", "impi", "slurm")
    expected = "openmpi5 one, mpich4 two, slurm three"
    assert {chosen(engines, tier, turn) for tier in ("test", "ci") for turn in range(3)} == {
        expected
    }


def test_without_launchers_values_that_differ_are_run() -> None:
    variants = [frozenset({("a", a), ("b", b)}) for a, b in product("12", "34")]
    assert (choose(variants, "test"), choose(variants, "ci")) == ([0], [0, 3])


def test_each_launcher_where_that_is_asked_for() -> None:
    variants = over(EVERYWHERE, ("one",))
    assert len(choose(variants, "ci", each_launcher=True)) == len(EVERYWHERE)


def test_a_test_without_parameters_is_run_and_one_without_variants_is_not() -> None:
    assert [choose([frozenset()], tier) for tier in TIERS] == [[0]] * 3
    assert [choose([], tier) for tier in TIERS] == [[]] * 3


def test_every_tier_has_all_of_the_one_before() -> None:
    for launchers, turn in product((EVERYWHERE, ("ssh", "local"), ("impi",)), range(3)):
        variants = over(launchers, NAMES)
        first, second, last = (set(choose(variants, tier, turn)) for tier in TIERS)
        assert first <= second <= last


def test_the_launchers_are_those_that_there_are() -> None:
    from dsrun.launcher.backends import BACKENDS

    named = {name.rstrip("45") for name in tiers.LAUNCHERS}
    assert named == set(BACKENDS) - {"mvapich", "none"}
