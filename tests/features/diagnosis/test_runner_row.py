"""How a row fits a text."""

from __future__ import annotations

from dsrun.launcher.features.diagnosis.runner_row import Row, fits, said


def test_a_row_without_conditions_fits_everything() -> None:
    assert fits(Row("any"), "") == {}


def test_names_words_and_pattern_must_all_fit() -> None:
    row = Row("one", raised=("A", "B"), said=said("x y", "z"), pattern=r"^z (?P<n>\d+)(?P<m>!)?")
    assert fits(row, "a\nz 12", "B") == {"n": "12", "m": ""}
    assert fits(row, "a\nz 12", "C") is None
    assert fits(row, "a\nz twelve", "B") is None
    assert fits(row, "12", "B") is None
