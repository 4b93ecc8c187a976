"""The table as a whole: what holds for every row."""

from __future__ import annotations

import re
import time
from string import Formatter

import pytest

from dsrun.launcher.head.deaths.row import Row
from dsrun.launcher.head.deaths.table import EVIDENCE, EXCEPTIONS, LINES, SIGNALS

ROWS = (*EXCEPTIONS, *SIGNALS, *EVIDENCE, *LINES)

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@each_row
def test_a_sentence_uses_what_the_pattern_finds(row: Row) -> None:
    used = {name for _, name, _, _ in Formatter().parse(row.sentence) if name}
    assert used <= re.compile(row.pattern).groupindex.keys()


@each_row
def test_a_row_has_conditions(row: Row) -> None:
    assert row.said or row.raised or row.pattern or row.signals


@each_row
def test_no_text_takes_a_pattern_long(row: Row) -> None:
    text = " ".join((*row.said, "Process 1 has 1 Tried to allocate 1 ", "a" * 4000, "1 " * 500))
    began = time.process_time()
    re.search(row.pattern, text, re.MULTILINE)
    assert time.process_time() - began < 0.2


def test_lines_of_schedulers_are_told_from_a_programs_own() -> None:
    assert {row.apart for row in LINES} == {True, False}
    assert not any(row.apart for row in (*EXCEPTIONS, *SIGNALS, *EVIDENCE))
