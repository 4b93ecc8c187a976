"""Whether what a rank has printed stands right above a report."""

from __future__ import annotations

from dsrun.launcher.head.output.terminal import KEPT, LINES, Recent

TAIL = ["Traceback:", "  here", "ValueError: x"]
PRINTED = b"n0:1| Traceback:\nn0:1|   here\nn0:0| fine\nn0:1| ValueError: x\n"


def test_lines_of_a_rank_between_those_of_others() -> None:
    recent = Recent()
    recent.add(PRINTED)
    assert recent.shows(TAIL)
    assert not recent.shows([*TAIL, "more"])
    assert not recent.shows(TAIL[::-1])


def test_what_has_left_the_screen() -> None:
    recent = Recent()
    recent.add(PRINTED)
    recent.add(b"x\n" * (LINES - 4))
    assert recent.shows(TAIL)
    recent.add(b"x\n")
    assert not recent.shows(TAIL)


def test_it_keeps_a_bound() -> None:
    recent = Recent()
    for _ in range(10):
        recent.add(b"x" * KEPT)
    assert KEPT <= sum(map(len, recent._printed)) <= 2 * KEPT
