"""Output of ranks, put together to lines."""

from __future__ import annotations

import pytest

from dsrun.launcher.api.events import Output
from dsrun.launcher.api.output import BlockLines
from dsrun.launcher.head.output.labels import LONGEST

from ..support.cost import LINEAR, growth

TEXT = b"one\ntwo\r\n\nbar 1%\rbar 2%\rbar 3%\nlast"
LINES = [b"one\n", b"two\r\n", b"\n", b"bar 1%\r", b"bar 2%\r", b"bar 3%\n"]


@pytest.mark.parametrize("size", [1, 2, 3, 5, len(TEXT)])
def test_lines_are_whole_however_they_arrive(size: int) -> None:
    lines = BlockLines()
    blocks = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]
    assert [one for block in blocks for one in lines.add(0, 1, block)] == LINES
    assert lines.rest() == [Output(0, 1, b"last")]
    assert lines.rest() == []


def test_ranks_and_streams_do_not_mix() -> None:
    lines = BlockLines()
    assert [lines.add(rank, stream, b"a") for rank in (0, 1) for stream in (1, 2)] == [[]] * 4
    assert lines.add(1, 2, b"b\n") == [b"ab\n"]
    assert lines.rest() == [Output(0, 1, b"a"), Output(0, 2, b"a"), Output(1, 1, b"a")]


def test_an_endless_line_comes_in_pieces() -> None:
    lines = BlockLines()
    assert lines.add(0, 1, b"x" * LONGEST) == []
    assert lines.add(0, 1, b"xx") == [b"x" * (LONGEST + 2)]
    assert lines.add(0, 1, b"y\n") == [b"y\n"]


def test_the_cost_is_linear() -> None:
    def work(size: int) -> None:
        lines = BlockLines()
        for _ in range(size):
            lines.add(0, 1, b"a line\nand a")

    assert growth(work, 2000) < LINEAR


def test_a_line_that_comes_byte_by_byte_costs_no_more_for_each() -> None:
    def work(size: int) -> None:
        lines = BlockLines()
        for _ in range(size):
            lines.add(0, 1, b"x")

    assert growth(work, 2000) < LINEAR
