"""How old faults are measured: which worlds can meet them, and how many seeds find them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..support.checkout import CHECKOUT
from . import measure
from .finds import STARTS, Find, Measured, recorded, written
from .old_faults import OLD_FAULTS
from .reached import REACHED, mark_all, marked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SOURCE = '''\
def first(x):
    """Do."""
    if x == 1:
        return [x
                + 1]
    elif x == 2:
        return 2
    return 3
'''


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("+ 1", {1}),
        ("    if x == 1", {1, 2, 3}),
        ("elif x == 2", {1, 2, 3}),
        ("\n        return 2", {2}),
        ("return 3", {3}),
        ("first(x)", {1, 2, 3}),
    ],
)
def test_a_mark_tells_of_the_statement_around_a_text(text: str, met: set[int]) -> None:
    names: dict[str, object] = {}
    exec(compile(marked(SOURCE, [("bug", text)]), "source", "exec"), names)
    first = names["first"]
    assert callable(first)
    found = set()
    for given in (1, 2, 3):
        REACHED.clear()
        first(given)
        found |= {given} if "bug" in REACHED else set()
    assert found == met


def test_all_places_can_be_marked(tmp_path: Path) -> None:
    modules = {one.module for replacements in OLD_FAULTS.values() for one in replacements}
    for name in modules:
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((CHECKOUT / name).read_text())
    mark_all(tmp_path)
    for name in modules:
        compile((tmp_path / name).read_text(), name, "exec")


def played(monkeypatch: pytest.MonkeyPatch, finders: Sequence[int]) -> None:
    """Let these seeds find whatever fault there is."""

    def play(copy: Path, seeds: Sequence[int], *options: str) -> list[str]:
        del copy
        found = [seed for seed in seeds if seed in finders][: int(options[1])]
        return [*(f"found by seed {seed}: rule at 1: x" for seed in found), "0 worlds"]

    monkeypatch.setattr(measure, "play", play)


def test_behind_each_find_seeds_are_counted_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those that do not meet the fault are counted, too."""
    played(monkeypatch, [3, 4, 9])
    found = measure.measured(tmp_path, range(1, 21), [3, 4, 5, 9, 12])
    assert found[1:] == ((Find(3, 3, "rule"), Find(1, 4, "rule"), Find(5, 9, "rule")), 11, 5, 20)
    assert found.median == float("inf")


def test_after_some_starts_it_is_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    played(monkeypatch, range(2, 20, 2))
    found = measure.measured(tmp_path, range(1, 21), range(1, 21))
    assert (len(found.finds), found.rest, found.median) == (STARTS, 0, 2)


def test_a_copy_in_which_nothing_can_be_played_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "play", lambda *_: ["ImportError: x"])
    with pytest.raises(RuntimeError, match="ImportError: x"):
        measure.finds_in(tmp_path, [1], 1)


def test_what_was_measured_is_read_as_it_was_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    one = {"a": Measured("2026-01-01", (Find(3, 7, "rule"),), 2, 4, 5)}
    monkeypatch.setattr("tests.simulation.finds.RECORD", tmp_path / "record")
    assert recorded() == {}
    (tmp_path / "record").write_text(written(one))
    assert recorded() == one


def test_only_faults_that_can_be_put_back_are_recorded() -> None:
    assert recorded().keys() <= OLD_FAULTS.keys()
