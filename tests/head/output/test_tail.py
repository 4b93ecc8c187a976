"""The newest output of a job, within a bound."""

from __future__ import annotations

import pytest

from dsrun.launcher.head.output.tail import COST, LAST, Tail


def lines(tail: Tail) -> bytes:
    return b"".join(data for _, _, data in tail.blocks())


def test_what_fits_is_kept_in_order() -> None:
    tail = Tail()
    tail.add(0, "n0", 1, b"one\n")
    tail.add(3, "n1", 2, b"two")
    assert list(tail.blocks()) == [(0, 1, b"one\n"), (3, 2, b"two")]
    assert (tail.newest, tail.hosts) == (3, {0: "n0", 3: "n1"})


def test_the_oldest_blocks_give_way() -> None:
    tail = Tail(limit=100 + 2 * COST)
    for number in range(100):
        tail.add(0, "n0", 1, b"%50d" % number)
    assert [int(data) for _, _, data in tail.blocks()] == [98, 99]


def test_many_short_blocks_cost_no_more_than_few_long_ones() -> None:
    tail = Tail(limit=1000)
    for _ in range(10_000):
        tail.add(0, "n0", 1, b"x")
    assert len(list(tail.blocks())) < 1000 // COST + 2


def test_of_a_huge_block_the_end_is_kept() -> None:
    tail = Tail(limit=1000)
    tail.add(0, "n0", 1, b"a" * 5000 + b"b" * 900)
    tail.add(0, "n0", 1, b"c")
    assert len(lines(tail)) <= 1000
    assert lines(tail).endswith(b"c")


@pytest.mark.parametrize(
    ("blocks", "last"),
    [
        ([b"one\ntwo\n"], "two"),
        ([b"one\ntwo"], "two"),
        ([b"one\ntw", b"o"], "two"),
        ([b"one\n", b"\n  \n"], "one"),
        ([b"10%\r20%\r"], "20%"),
        ([b"10%\r", b"20%"], "20%"),
        ([b"done\r\n"], "done"),
        ([b"\xff\xfe\n"], "\ufffd\ufffd"),
        ([b"\n\n"], ""),
        ([b"x" * 3 * LAST], "x" * LAST),
        ([b"a" * LAST, b"b" * (LAST - 1)], "a" + "b" * (LAST - 1)),
    ],
)
def test_the_last_line(blocks: list[bytes], last: str) -> None:
    tail = Tail()
    for block in blocks:
        tail.add(7, "n0", 1, block)
    assert tail.last_line(7) == last


def test_the_streams_of_a_rank_are_not_mixed_within_a_line() -> None:
    tail = Tail()
    tail.add(0, "n0", 1, b"half of a li")
    tail.add(0, "n0", 2, b"a warning\n")
    assert tail.last_line(0) == "a warning"


def test_who_has_written_nothing_has_no_last_line() -> None:
    tail = Tail()
    assert (tail.last_line(0), tail.last_line(None), tail.newest) == ("", "", None)
