"""Lines of workers as they are complete, and what matches in them."""

from __future__ import annotations

import re

import pytest

from dsrun.launcher.features.watch.runner_lines import LIMIT, OutputLines, line_of, matches


def test_a_line_is_complete_with_its_end_whatever_blocks_it_comes_in() -> None:
    lines = OutputLines()
    assert [lines.add(0, 1, one) for one in (b"st", b"ep 1", b"\nste", b"p 2\nx\n")] == [
        b"",
        b"",
        b"step 1\n",
        b"step 2\nx\n",
    ]


def test_ranks_and_streams_are_kept_apart() -> None:
    lines = OutputLines()
    for rank, stream in ((0, 1), (0, 2), (1, 1)):
        assert lines.add(rank, stream, b"%d%d" % (rank, stream)) == b""
    assert lines.add(0, 2, b"\n") == b"02\n"
    assert lines.add(1, 1, b"\n") == b"11\n"
    lines.clear()
    assert lines.add(0, 1, b"\n") == b"\n"


def test_the_states_of_a_progress_bar_are_lines() -> None:
    assert OutputLines().add(0, 2, b"\r 1%\r 2%\r 3%") == b"\n 1%\n 2%\n"


def test_of_a_long_line_only_the_beginning_counts() -> None:
    lines = OutputLines()
    for _ in range(100):
        assert lines.add(0, 1, b"x" * 1000) == b""
    assert lines.add(0, 1, b"x\nnext\n") == b"x" * LIMIT + b"\nnext\n"
    assert lines.add(0, 1, b"y" * 9000 + b"\n") == b"y" * LIMIT + b"\n"


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (rb"step (\d)", [b"step 1", b"step 2"]),
        (rb"^step 2$", [b"step 2"]),
        (rb"\Astep 2\Z", [b"step 2"]),
        (rb"step\s+\d", [b"step 1", b"step 2"]),
        (rb"end\s+step", []),
        (rb"[^2]+", [b"step 1", b"end", b"step "]),
        (rb"nothing", []),
    ],
)
def test_no_match_crosses_the_end_of_a_line(pattern: bytes, found: list[bytes]) -> None:
    lines = b"step 1\nend\nstep 2\n"
    assert [one[0] for one in matches(re.compile(pattern, re.MULTILINE), lines)] == found


@pytest.mark.parametrize("text", [b"a\n x 1 y\xff \nb\n", b" x 1 y\xff "])
def test_the_line_of_a_match(text: bytes) -> None:
    (match,) = matches(re.compile(rb"\d"), text)
    assert line_of(match) == "x 1 y\ufffd"
