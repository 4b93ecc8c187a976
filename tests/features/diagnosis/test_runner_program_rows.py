"""Failures of the program itself; `test_corpus` has more of them."""

from __future__ import annotations

import pytest

from dsrun.launcher.features.diagnosis.runner_program_rows import START_ROWS, USE_ROWS
from dsrun.launcher.features.diagnosis.runner_row import UNKNOWN, fits


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("/usr/bin/python3.11: No module named x", "no-module"),
        ("python: Error while finding module specification for 'a.b' (X: No module)", "no-module"),
        ("I have No module named x", ""),
        ("sh: 1: trainer: not found", "no-command"),
        ("the file was not found", ""),
        ("SyntaxError: invalid syntax", "mistake"),
        ("a SyntaxError: perhaps", ""),
    ],
)
def test_lines_of_a_start(line: str, name: str) -> None:
    assert next((row.name for row in START_ROWS if fits(row, line) is not None), "") == name


def test_nothing_where_something_should_be_may_come_from_the_data() -> None:
    text = "TypeError: 'NoneType' object is not iterable"
    first = next(row for row in USE_ROWS if fits(row, text, "TypeError") is not None)
    assert first.kind is UNKNOWN
