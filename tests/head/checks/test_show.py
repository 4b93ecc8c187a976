"""Findings as lines."""

from __future__ import annotations

from dsrun.launcher.head.checks.findings import TABLE, finding
from dsrun.launcher.head.checks.show import MOST, lines


def test_a_line_says_who_what_and_what_to_do() -> None:
    found = finding("clock", ["n1", "n2", "n3", "n7"], "the clock is off")
    assert lines([found]) == [f"check: n[1-3], n7: the clock is off; {TABLE['clock'].advice}"]


def test_of_many_findings_of_a_kind_the_rest_are_counted() -> None:
    found = [finding("clock", [f"n{at}"], f"off by {at}") for at in range(MOST + 3)]
    shown = lines([*found, finding("shm", ["n1"], "full")])
    assert len(shown) == MOST + 2
    assert shown[MOST] == "check: 3 more findings of this kind (clock)"
    assert shown[-1].startswith("check: n1: full; ")
