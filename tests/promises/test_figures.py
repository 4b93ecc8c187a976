"""Bounds of rates of failures, and the file of what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .figures import Figures, Trial, added, read, upper_bound, write

if TYPE_CHECKING:
    from pathlib import Path

KEPT = Trial("2026-11-30T20:00:00Z", 0, 75, 0.5)
BROKEN = KEPT._replace(why=("left: a process",))


@pytest.mark.parametrize(
    ("failures", "tries", "bound"),
    [(0, 20, 0.139), (0, 5, 0.451), (0, 1, 0.95), (1, 20, 0.216), (3, 3, 1.0), (0, 0, 1.0)],
)
def test_upper_bounds_are_those_of_clopper_and_pearson(
    failures: int, tries: int, bound: float
) -> None:
    assert upper_bound(failures, tries) == pytest.approx(bound, abs=5e-4)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    seen = added({}, "power/running/ssh", KEPT, "tree")
    seen = added(seen, "power/running/ssh", BROKEN, "tree")
    write(seen, {"cores": "2"}, tmp_path / "promises.json")
    again = read(tmp_path / "promises.json")
    assert again == {"power/running/ssh": Figures("tree", (KEPT, BROKEN))}
    assert again["power/running/ssh"].failures == 1
    assert [one.name for one in tmp_path.iterdir()] == ["promises.json"]


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "none.json") == {}


def test_trials_of_another_tree_are_replaced() -> None:
    seen = added(added({}, "a", BROKEN, "old"), "b", KEPT, "old")
    seen = added(seen, "a", KEPT, "new")
    assert (seen["a"].tree, seen["a"].failures, len(seen["a"].tries)) == ("new", 0, 1)
    assert seen["b"].tree == "old"


def test_doubt_is_less_the_more_was_seen_and_not_the_more_has_failed() -> None:
    doubts = [
        Figures("t", tries).doubt
        for tries in ((), (KEPT,), (BROKEN,), (KEPT, BROKEN), (KEPT,) * 5, (BROKEN,) * 5)
    ]
    assert doubts[0] == 1.0
    assert doubts[1] == doubts[2] == pytest.approx(0.95)
    assert doubts[4] == doubts[5] < doubts[3] < doubts[2]
