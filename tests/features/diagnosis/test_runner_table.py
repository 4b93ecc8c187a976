"""The table as a whole: what holds for every row."""

from __future__ import annotations

import re
from string import Formatter

import pytest

from dsrun.launcher.features.diagnosis.runner_row import Row
from dsrun.launcher.features.diagnosis.runner_table import EVIDENCE, EXCEPTIONS, LINES, SIGNALS
from dsrun.launcher.specs.environment import exports

from ...support.regex_steps import is_linear

ROWS = (*EXCEPTIONS, *SIGNALS, *EVIDENCE, *LINES)

each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


@each_row
def test_a_sentence_uses_what_the_pattern_finds(row: Row) -> None:
    used = {name for _, name, _, _ in Formatter().parse(row.sentence) if name}
    assert used <= re.compile(row.pattern).groupindex.keys()


@each_row
def test_a_row_has_conditions(row: Row) -> None:
    assert row.said or row.raised or row.pattern or row.signals


def test_variables_in_advice_can_be_typed() -> None:
    """As one --export for each."""
    found = [item for row in ROWS for item in re.findall(r"--export ([^ ;)]+)", row.advice)]
    assert found
    for item in found:
        name = item.partition("=")[0]
        assert [*exports([item], {name: "x"})] == [name]


PIECES = (
    *("a", "1", " ", "\n", "'", '"', "/", ".", "(", "a.", "1 ", "/a", "a\n", " \n", "[1, 2"),
    *("Tried to allocate 1 x ", "Process 1 has 1 ", "Ranks 1, 2, ", "Timed out waiting 1ms for "),
    *("No such file or directory: 'a'", "version 'a", "(popen_a", "WorkNCCL(SeqNum=1, OpType=a"),
    *("Current thread 1\n", "python: ", "sh: ", "unexpected pos 1 vs "),
    '  File "/lib/python3/site-packages/a"\n',
    'Current thread 1\n  File "/lib/python3/site-packages/a"\n',
)
"""What hostile output repeats: kinds of letters, and beginnings of what the patterns look for."""


@each_row
def test_no_text_takes_a_pattern_long(row: Row) -> None:
    head = " ".join((*row.said, "Current thread 1\n"))
    assert [p for p in PIECES if not is_linear(row.pattern, p, re.MULTILINE, head=head)] == []
