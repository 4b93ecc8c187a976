"""Which tests run in which tier: `pytest --tier test`, `ci` or `all`.

Each tier has all tests of the one before. The rules:

1. A test without hosts is in `test`, one on virtual hosts (`tests/cluster`) in `ci`. A mark says
   otherwise: `@pytest.mark.tier("test")` is on one test of each thing that hosts alone can show,
   `tier("ci")` on what takes long without hosts, `tier("all")` on statistics, recipes and
   the soak.
2. A test on hosts that is run with an engine and with other launchers is about what is the same
   over all of them: it is in `test` without a mark.
3. Below `all`, a test on hosts is run with few of its parameters' values (`MOST`), which differ as
   much as possible. A value that is marked with a later tier is left out first.
4. Its launchers are then of different kinds (`KINDS`, without engines `CLIENTS`), in which tests
   take turns. A test about engines alone is run with one of each family (`FAMILIES`), and one that
   is marked `each_launcher` with each.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

TIERS = ("test", "ci", "all")
MOST = {"test": 1, "ci": 2}
"""How many variants of a test on hosts are run, if its launchers do not need more.

Of those that differ by the launcher alone it is one."""
ENGINES = frozenset({"openmpi4", "openmpi5", "mpich4", "mpich5", "impi", "slurm"})
KINDS = (("ssh", "openmpi5"), ("openmpi5", "ssh"), ("pdsh", "openmpi5"))
"""A launcher whose control line is a session, one that has it dialled back, and an engine: which
are used in each turn, the first of them in every tier."""
CLIENTS = (("ssh", "openssh"), ("openssh", "ssh"), ("pdsh", "ssh"))
"""The same without engines."""
FAMILIES = ("openmpi5", "mpich4", "slurm")
"""Open MPI, Hydra and `srun`."""
LAUNCHERS = ENGINES.union(*KINDS, *CLIENTS, ["local"])

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
    turn = crc32(items[0].nodeid.partition("[")[0].encode()) % len(KINDS)
    kept: list[pytest.Item] = []
    for place, name in enumerate(TIERS[: TIERS.index(tier) + 1]):
        some = [item for item, first in zip(items, firsts, strict=True) if first <= place]
        chosen = choose([_variant(item) for item in some], name, turn, each_launcher=each)
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


def choose(
    variants: Sequence[Variant], tier: str, turn: int = 0, *, each_launcher: bool = False
) -> list[int]:
    """Return the places of those variants of a test on hosts that are in this tier, in order.

    Args:
        variants: all that there are.
        tier: one of `TIERS`.
        turn: 0 to 2: which launchers stand for others.
        each_launcher: whether it is run with every launcher.
    """
    if tier == "all":
        return list(range(len(variants)))
    there = list(dict.fromkeys(launcher(variant) for variant in variants))
    others = {frozenset(one for one in variant if one[1] not in LAUNCHERS) for variant in variants}
    few = min(MOST[tier], len(others))
    engines_alone = bool(there) and ENGINES.issuperset(there)
    if each_launcher:
        most = len(there)
    elif engines_alone:
        there = [one for one in FAMILIES if one in there] or there
        most = len(there)
    else:
        first = (KINDS if over_all_launchers(variants) else CLIENTS)[turn]
        there = sorted(there, key=lambda one: (*first, one).index(one))
        most = few
    return _different(variants, there, max(most, few))


def _different(variants: Sequence[Variant], launchers: Sequence[str], most: int) -> list[int]:
    """Choose at most so many variants, with each launcher in turn, and with new values."""
    chosen: list[int] = []
    met: set[tuple[str, str]] = set()
    for number in range(most if launchers else 0):
        wanted = launchers[number % len(launchers)]
        places = [
            place
            for place, variant in enumerate(variants)
            if launcher(variant) == wanted and place not in chosen
        ]
        if places:
            chosen.append(max(places, key=lambda place: len(variants[place] - met)))
            met |= variants[chosen[-1]]
    return sorted(chosen)
