"""The table of findings, whose rows the documentation has, and findings as lines."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.quick_check.runner_findings import (
    MOST,
    TABLE,
    Severity,
    finding,
    lines,
)

from ...support.checkout import CHECKOUT

PAGE = (CHECKOUT / "docs" / "checks.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", TABLE)
def test_every_row_is_documented(code: str) -> None:
    rule = TABLE[code]
    assert f"| `{code}` | {rule.severity.value} | {rule.condition} | {rule.advice} |" in PAGE


def test_no_row_is_documented_that_is_not_in_the_table() -> None:
    severities = tuple(f"| {one.value} |" for one in Severity)
    rows = [line for line in PAGE.splitlines() if any(one in line for one in severities)]
    assert [row.split("`")[1] for row in rows] == list(TABLE)


def test_a_finding_has_the_severity_and_advice_of_its_row() -> None:
    found = finding("torch", ["n1", "n2", "n1"], "text")
    rule = TABLE["torch"]
    assert found == ("torch", Severity.ERROR, ("n1", "n2"), "text", rule.advice)


def test_a_line_says_who_what_and_what_to_do() -> None:
    found = finding("clock", ["n1", "n2", "n3", "n7"], "the clock is off")
    assert lines([found]) == [f"check: n[1-3], n7: the clock is off; {TABLE['clock'].advice}"]


def test_of_many_findings_of_a_kind_the_rest_are_counted() -> None:
    found = [finding("clock", [f"n{at}"], f"off by {at}") for at in range(MOST + 3)]
    shown = lines([*found, finding("shm", ["n1"], "full")])
    assert len(shown) == MOST + 2
    assert shown[MOST] == "check: 3 more findings of this kind (clock)"
    assert shown[-1].startswith("check: n1: full; ")
