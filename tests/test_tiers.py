"""Which variants of a test are run in which tier."""

from __future__ import annotations

from itertools import product

import pytest

from .support import tiers
from .support.tiers import FAMILIES, KINDS, TIERS, Variant, choose

EVERYWHERE = ("ssh", "openssh", "pdsh", "local", "openmpi4", "openmpi5", "mpich4", "impi", "slurm")
NAMES = ("one", "two", "three", "four")


def over(launchers: tuple[str, ...], names: tuple[str, ...]) -> list[Variant]:
    """All combinations of these launchers and names."""
    return [
        frozenset({("launcher", where), ("name", name)})
        for where, name in product(launchers, names)
    ]


def values(variants: list[Variant], chosen: list[int]) -> set[str]:
    return {value for place in chosen for _, value in variants[place]}


@pytest.mark.parametrize("launchers", [EVERYWHERE, ("ssh", "openssh", "pdsh"), ("impi", "slurm")])
def test_the_last_tier_has_everything(launchers: tuple[str, ...]) -> None:
    variants = over(launchers, NAMES)
    assert choose(variants, "all") == list(range(len(variants)))


@pytest.mark.parametrize(
    ("launchers", "some"),
    [
        (EVERYWHERE, KINDS),
        (("local", "ssh", "openmpi4", "openmpi5"), {"ssh", "openmpi5"}),
        (("openmpi4", "openmpi5", "mpich4", "mpich5", "impi", "slurm"), FAMILIES),
        (("ssh", "openssh", "pdsh"), {"ssh", "openssh", "pdsh"}),
        (("local", "ssh"), {"local", "ssh"}),
    ],
)
@pytest.mark.parametrize("tier", ["test", "ci"])
def test_launchers_stand_for_others_and_every_other_value_is_met(
    launchers: tuple[str, ...], some: set[str], tier: str
) -> None:
    variants = over(launchers, NAMES)
    chosen = choose(variants, tier)
    assert values(variants, chosen) == {*some, *NAMES}
    assert len(chosen) == max(len(some), len(NAMES)), "no more than that takes"


def test_each_launcher_where_that_is_asked_for() -> None:
    variants = over(EVERYWHERE, ("one",))
    assert len(choose(variants, "ci", each_launcher=True)) == len(EVERYWHERE)


def test_a_value_that_another_launcher_alone_is_run_with_is_not_lost() -> None:
    variants = [*over(EVERYWHERE, ("one",)), *over(("local", "impi"), ("two",))]
    for tier in ("test", "ci"):
        assert "two" in values(variants, choose(variants, tier))


def test_a_test_without_parameters_is_run() -> None:
    assert [choose([frozenset()], tier) for tier in TIERS] == [[0]] * 3


def test_every_tier_has_all_of_the_one_before() -> None:
    for launchers in (EVERYWHERE, ("ssh", "local"), ("impi",)):
        variants = over(launchers, NAMES)
        first, second, last = (set(choose(variants, tier)) for tier in TIERS)
        assert first <= second <= last


def test_the_launchers_are_those_that_there_are() -> None:
    from dsrun.launcher.backends import BACKENDS

    named = {name.rstrip("45") for name in tiers.LAUNCHERS}
    assert named == set(BACKENDS) - {"mvapich", "none"}
