"""Which tests run in which tier: `pytest --tier test`, `ci` or `all`.

Each tier has all tests of the one before. The rules:

1. A test without hosts is in `test`, one on virtual hosts (`tests/cluster`) in `ci`. A mark says
   otherwise: `@pytest.mark.tier("test")` is on one test of each thing that hosts alone can show,
   `tier("ci")` on what takes long without hosts, `tier("all")` on statistics, recipes and
   the soak.
2. A test on hosts that is run with an engine and with other launchers is about what is the same
   over all of them: it is in `test` without a mark.
3. Below `all`, such a test is run with one launcher of each kind (`KINDS`), and one about engines
   alone with one engine of each family (`FAMILIES`), unless it is marked `each_launcher`.
4. Below `all`, a test on hosts with several parameters is run with every value of each of them, not
   with every combination. A value that is marked with a later tier is left out first.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

TIERS = ("test", "ci", "all")
ENGINES = frozenset({"openmpi4", "openmpi5", "mpich4", "mpich5", "impi", "slurm"})
KINDS = frozenset({"ssh", "pdsh", "openmpi5"})
"""A launcher whose control line is a session, one that has it dialled back, and an engine."""
FAMILIES = frozenset({"openmpi5", "mpich4", "slurm"})
"""Open MPI, Hydra and `srun`."""
LAUNCHERS = ENGINES | KINDS | {"local", "openssh"}

Variant = frozenset[tuple[str, str]]
"""With which values a test is run: (parameter, value) each."""


def divide(items: Sequence[pytest.Item], tier: str) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the collected tests that are in this tier, and those that are not, in their order."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    kept = {item for of_one in tests.values() for item in _in_tier(of_one, tier)}
    return [item for item in items if item in kept], [item for item in items if item not in kept]


def _in_tier(items: Sequence[pytest.Item], tier: str) -> list[pytest.Item]:
    """Return those variants of one test that are in this tier, or in one before."""
    hosts, default = "cluster" in items[0].path.parts, "test"
    if hosts and not over_all_launchers([_variant(item) for item in items]):
        default = "ci"
    firsts = [TIERS.index(_first(item, default)) for item in items]
    if not hosts:
        return [items[i] for i, first in enumerate(firsts) if first <= TIERS.index(tier)]
    each = items[0].get_closest_marker("each_launcher") is not None
    kept: list[pytest.Item] = []
    for place, name in enumerate(TIERS[: TIERS.index(tier) + 1]):
        some = [item for item, first in zip(items, firsts, strict=True) if first <= place]
        chosen = choose([_variant(item) for item in some], name, each_launcher=each)
        kept += [some[one] for one in chosen]
    return kept


def _first(item: pytest.Item, default: str) -> str:
    """Return the first tier that has this test; a mark of a parameter's value goes before all."""
    marks = [mark for mark in item.own_markers if mark.name == "tier"]
    mark = marks[-1] if marks else item.get_closest_marker("tier")
    return mark.args[0] if mark else default


def _variant(item: pytest.Item) -> Variant:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return frozenset((name, str(value)) for name, value in parameters.items())


def launcher(variant: Variant) -> str:
    """Return the launcher that a test is run with, or nothing."""
    return next((value for _, value in variant if value in LAUNCHERS), "")


def over_all_launchers(variants: Sequence[Variant]) -> bool:
    """Return whether a test is run with an engine and with other launchers too."""
    launchers = {launcher(variant) for variant in variants} - {""}
    return bool(launchers & ENGINES) and bool(launchers - ENGINES)


def choose(variants: Sequence[Variant], tier: str, *, each_launcher: bool = False) -> list[int]:
    """Return the places of those variants of a test on hosts that are in this tier, in order."""
    places = list(range(len(variants)))
    if tier == "all":
        return places
    return _every_value(variants, places if each_launcher else _represented(variants))


def _represented(variants: Sequence[Variant]) -> list[int]:
    """Leave out launchers that others stand for, but where they alone are run with some value."""
    launchers = {launcher(variant) for variant in variants} - {""}
    if not launchers & ENGINES:
        return list(range(len(variants)))
    some = (KINDS if over_all_launchers(variants) else FAMILIES) | {""}
    kept = [place for place, variant in enumerate(variants) if launcher(variant) in some]
    met = {value for place in kept for _, value in variants[place]} | LAUNCHERS
    for place, variant in enumerate(variants):
        if new := {value for _, value in variant} - met:
            kept.append(place)
            met |= new
    return sorted(kept)


def _every_value(variants: Sequence[Variant], places: Sequence[int]) -> list[int]:
    """Choose few variants that have every value there is, and each about as often."""
    left = {pair for place in places for pair in variants[place]}
    used: Counter[tuple[str, str]] = Counter()
    chosen: list[int] = []

    def merit(place: int) -> tuple[int, int]:
        return len(variants[place] & left), -sum(used[pair] for pair in variants[place])

    while left:
        chosen.append(max(places, key=merit))
        left -= variants[chosen[-1]]
        used.update(variants[chosen[-1]])
    return sorted(chosen) or list(places)
