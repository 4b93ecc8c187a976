"""The table of findings, and that the documentation has every row of it."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.checks.findings import TABLE, Severity, finding

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
