"""The same line of several ranks is printed once, soon, and in the order of every rank."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.head.output import folded
from dsrun.launcher.head.output.folded import AHEAD, MOST, SEARCHES, STEP, WAIT, FoldedLines
from dsrun.launcher.resources.ranges import parse_ranks, show_slots

from ...support.clock import Clock
from ...support.cost import LINEAR, calls, growth

if TYPE_CHECKING:
    from collections.abc import Sequence


class Printed:
    """What some ranks have printed.

    Attributes:
        text: all of it; the label of a line is its ranks.
        written: the names of blocks that are written.
        calls: how often something was printed.
    """

    def __init__(self, ranks: int) -> None:
        self.clock = Clock()
        self.text, self.calls = "", 0
        self.written: list[str] = []
        self.folded = FoldedLines(self.clock.loop, ranks, self._label, self._show)

    def _label(self, ranks: Sequence[int]) -> bytes:
        return f"{show_slots(ranks)}| ".encode()

    def _show(self, data: bytes, written: Sequence[folded.Written]) -> None:
        self.text += data.decode()
        self.calls += 1
        for call in written:
            call()

    def add(self, rank: int, *lines: str, name: str = "") -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        self.folded.add(rank, data, lambda: self.written.append(name))

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def test_a_line_of_all_ranks_is_printed_once_as_soon_as_the_last_has_written_it() -> None:
    printed = Printed(4)
    for rank in (2, 0, 3):
        printed.add(rank, "step 1", name=f"r{rank}")
    printed.clock.settle()
    assert (printed.text, printed.written) == ("", [])
    printed.add(1, "step 1", name="r1")
    assert printed.text == "0-3| step 1\n"
    assert sorted(printed.written) == ["r0", "r1", "r2", "r3"], "each is granted back once"


def test_a_line_waits_for_its_likes_for_a_moment() -> None:
    printed = Printed(4)
    printed.add(0, "up", name="0")
    printed.clock.go(WAIT - STEP - 0.001)
    printed.add(3, "up", name="3")
    assert printed.text == ""
    printed.clock.go(STEP + 0.001)
    assert printed.lines == ["0,3| up"]
    printed.add(1, "up", name="1")
    printed.clock.go(WAIT)
    assert printed.lines == ["0,3| up", "1| up"]
    assert printed.written == ["0", "3", "1"]


def test_lines_that_differ_in_numbers_only_are_different() -> None:
    printed = Printed(2)
    printed.add(0, "loss 1.0")
    printed.add(1, "loss 1.1")
    printed.folded.flush()
    assert printed.lines == ["0| loss 1.0", "1| loss 1.1"]


def test_own_lines_of_ranks_do_not_keep_others_from_being_the_same() -> None:
    printed = Printed(2)
    printed.add(0, "rank 0 is up", "loading", "built")
    printed.add(1, "rank 1 is up")
    printed.add(1, "loading", "built")
    assert printed.lines == ["0| rank 0 is up", "1| rank 1 is up", "0-1| loading", "0-1| built"]


def test_the_order_of_a_rank_is_kept_though_others_have_another_one() -> None:
    printed = Printed(2)
    printed.add(0, "a", "b", "b", "a")
    printed.add(1, "b", "a", "b", "c")
    printed.folded.flush()
    assert printed.lines == ["0| a", "0-1| b", "0| b", "0-1| a", "1| b", "1| c"]


def test_blocks_need_not_begin_and_end_alike() -> None:
    printed = Printed(2)
    lines = [f"step {number}" for number in range(9)]
    printed.add(0, *lines[:4])
    printed.add(1, *lines[:2])
    printed.add(1, *lines[2:7])
    printed.add(0, *lines[4:])
    printed.add(1, *lines[7:])
    assert printed.lines == [f"0-1| {line}" for line in lines]


def test_the_same_traceback_is_printed_once() -> None:
    printed = Printed(3)
    trace = ["Traceback (most recent call last):", '  File "t.py", line 3', "    f()", "", "E: no"]
    for rank in range(3):
        printed.add(rank, *trace[:2])
        printed.add(rank, *trace[2:])
    assert printed.lines == [f"0-2| {line}" for line in trace]


def test_indented_and_empty_lines_stay_with_the_line_before_them() -> None:
    printed = Printed(3)
    printed.add(0, "Traceback:", "  File a", "    x()", "", "E: 0")
    printed.add(1, "config 1:", "    x()", "")
    printed.add(2, "Traceback:", "  File b", "    x()", "E: 2")
    printed.folded.flush()
    assert printed.lines == [
        *("0,2| Traceback:", "0|   File a", "0|     x()", "0| ", "0| E: 0"),
        *("1| config 1:", "1|     x()", "1| "),
        *("2|   File b", "2|     x()", "2| E: 2"),
    ]


def test_indented_lines_of_all_ranks_are_the_same_though_one_has_said_more() -> None:
    printed = Printed(3)
    printed.add(0, "saved")
    for rank in range(3):
        printed.add(rank, " iteration 1")
    printed.clock.go(WAIT)
    for rank in range(3):
        printed.add(rank, " iteration 2")
    assert printed.lines == [
        "0| saved",
        "0|  iteration 1",
        "1-2|  iteration 1",
        "0-2|  iteration 2",
    ]


def test_output_without_a_whole_line_is_granted_back_behind_what_waits() -> None:
    printed = Printed(2)
    printed.add(0, name="part")
    assert (printed.text, printed.written) == ("", ["part"])
    printed.add(0, "a", name="whole")
    printed.add(0, name="next")
    assert printed.written == ["part"]
    printed.clock.go(WAIT)
    assert printed.written == ["part", "whole", "next"]


def test_more_than_can_wait_is_printed() -> None:
    printed = Printed(2)
    printed.add(0, *["x" * 1000] * (MOST // 1000), name="much")
    assert printed.written == ["much"]


def test_a_flood_of_different_lines_is_not_searched() -> None:
    printed = Printed(2)
    for start in range(0, 3 * SEARCHES, 100):
        for rank in range(2):
            printed.add(rank, *(f"{rank} {start + number}" for number in range(100)))
    printed.add(0, "same")
    printed.add(1, "same")
    assert printed.lines[-2:] == ["0| same", "1| same"]
    printed.clock.go(WAIT)
    printed.add(0, "same")
    printed.add(1, "same")
    assert printed.lines[-1] == "0-1| same"


def test_a_rank_far_ahead_is_granted_back_what_all_have_printed() -> None:
    printed = Printed(2)
    printed.add(0, "a", "b", name="first")
    printed.add(0, "c", name="second")
    printed.add(1, "a", name="behind")
    assert printed.written == ["behind"]
    printed.add(1, "b", name="later")
    assert (printed.lines, printed.written) == (["0-1| a", "0-1| b"], ["behind", "first", "later"])


def test_own_lines_before_a_long_stretch_of_others_stay() -> None:
    printed = Printed(2)
    printed.add(1, "same")
    for number in range(2 * AHEAD):
        printed.add(0, f"own {number}")
    printed.add(0, "same", "end")
    printed.folded.flush()
    assert printed.lines[0] == "1| same"
    own = [f"0| own {number}" for number in range(2 * AHEAD)]
    assert printed.lines[1:] == [*own, "0| same", "0| end"]


def test_lines_of_one_moment_are_printed_together() -> None:
    printed = Printed(64)
    for rank in range(40):
        printed.add(rank, f"own {rank}")
        printed.clock.now += STEP / 100
    printed.clock.go(WAIT)
    assert len(printed.lines) == 40
    assert printed.calls <= 2


def test_sets_of_ranks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folded, "LABELS", 2)
    printed = Printed(9)
    for rank in range(9):
        printed.add(rank, f"own {rank}")
    printed.folded.flush()
    assert printed.lines == [f"{rank}| own {rank}" for rank in range(9)]


WORDS = ("step 1", "step 2", "  indented", "", "loss nan", "up")


@pytest.mark.parametrize("seed", range(40))
def test_every_rank_has_its_lines_in_its_order_and_in_time(seed: int) -> None:
    choose = random.Random(seed)
    ranks = choose.choice((2, 3, 7))
    printed = Printed(ranks)
    wrote: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    due: list[tuple[float, int]] = []
    blocks = 0
    for _ in range(200):
        rank = choose.randrange(ranks)
        lines = [choose.choice((*WORDS, f"own {rank}")) for _ in range(choose.randrange(5))]
        printed.add(rank, *lines, name=str(blocks))
        wrote[rank] += lines
        blocks += 1
        due.append((printed.clock.now + WAIT, blocks))
        printed.clock.go(choose.choice((0.0, 0.0, 0.001, 0.03, 0.25)))
        late = [count for when, count in due if when < printed.clock.now - 1e-9]
        assert len(printed.written) >= max(late, default=0)
    printed.folded.flush()
    got: dict[int, list[str]] = {rank: [] for rank in range(ranks)}
    for line in printed.lines:
        label, _, text = line.partition("| ")
        for one in parse_ranks("label", label):
            got[one].append(text)
    assert got == wrote
    assert sorted(map(int, printed.written)) == [*range(blocks)]


def test_equal_floods_are_cheap() -> None:
    block = [f"step {number} of all {'x' * 70}" for number in range(1000)]
    data = "".join(f"{line}\n" for line in block).encode()

    def flood(blocks: int) -> None:
        printed = Printed(8)
        for _ in range(blocks):
            for rank in range(8):
                printed.folded.add(rank, data, lambda: None)
        assert printed.text.count("\n") == blocks * len(block)

    assert growth(flood, 2) < LINEAR
    assert calls(lambda: flood(20)) < 2 * 160_000, "two calls a line"
