"""What comes of checks."""

from __future__ import annotations

import pytest

from .checks import Check, Outcome, check, outcome, same, skipped

GOOD, BAD, LEFT_OUT = check("a", True), check("b", False), skipped("c", "why")


@pytest.mark.parametrize(
    ("checks", "wanted"),
    [
        ((GOOD, GOOD), Outcome.PASSED),
        ((GOOD, BAD, LEFT_OUT), Outcome.FAILED),
        ((GOOD, LEFT_OUT), Outcome.PASSED),
        ((LEFT_OUT,), Outcome.SKIPPED),
        ((), Outcome.FAILED),
    ],
)
def test_how_a_part_has_ended(checks: tuple[Check, ...], wanted: Outcome) -> None:
    assert outcome(checks) is wanted


def test_what_differs_is_told_beside_what_it_should_be() -> None:
    assert same("x", 1, 1) == Check(Outcome.PASSED, "x", "1")
    assert same("x", "a", "b") == Check(Outcome.FAILED, "x", "'a' instead of 'b'")
