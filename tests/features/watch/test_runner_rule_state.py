"""One rule: when a line is missing, and what is wrong with the numbers in lines."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.features.watch.runner_rule_state import NO_NUMBER, RuleFinding, RuleState
from dsrun.launcher.head.run.events import RankOutput
from dsrun.launcher.specs.policies import Rule

LOSS = r"loss (?P<loss>\S+)"


def state(expect: str = "step", **more: Any) -> RuleState:
    return RuleState(Rule("r", expect, **more))


def said(one: RuleState, text: str, now: float = 0.0, rank: int = 0) -> list[str]:
    """What is found in a line."""
    line = text.encode() + b"\n"
    return [found.text for found in one.take(RankOutput(rank, "n1", 1, line), line, now)]


def test_the_first_line_has_to_come_in_time() -> None:
    one = state(within=10.0, every=3.0)
    one.start(100.0)
    assert one.due == 110.0
    assert not list(one.missed(109.9))
    text = "r: no line has matched 'step' within 10.0 s of the start of the workers"
    assert list(one.missed(110.0)) == [RuleFinding(text, True)]
    assert not list(one.missed(999.0)), "once"


def test_then_one_after_another() -> None:
    one = state(within=10.0, every=3.0)
    one.start(100.0)
    assert said(one, "step 1", 101.0) == []
    assert one.due == 104.0
    assert said(one, "something else", 103.0) == []
    (found,) = one.missed(104.0)
    text = "r: no line has matched 'step' for 3.0 s; the last was 'step 1' from rank 0 (n1)"
    assert found == RuleFinding(text, True)
    assert said(one, "step 2", 111.0, rank=5) == [
        "r: a line from rank 5 (n1) matches again, after 10.0 s"
    ]
    assert (one.due, said(one, "step 3", 112.0)) == (114.0, [])
    assert len(list(one.missed(115.0))) == 1, "missed anew"


def test_every_alone_counts_from_the_start_and_within_alone_only_to_the_first() -> None:
    assert state(every=3.0).due == 3.0
    one = state(within=3.0)
    said(one, "step 1")
    assert one.due == float("inf")


def test_a_new_round_and_time_that_does_not_count() -> None:
    one = state(every=3.0)
    said(one, "step 1", 1.0)
    list(one.missed(9.0))
    assert one.matched
    one.start(20.0)
    assert (one.due, one.matched) == (23.0, False)
    one.still(100.0)
    assert one.due == 123.0


def test_only_lines_of_its_ranks_count() -> None:
    one = state(every=3.0, ranks=frozenset({1}))
    said(one, "step 1", 1.0, rank=0)
    assert not one.matched
    said(one, "step 1", 1.0, rank=1)
    assert one.matched


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN"])
def test_a_number_must_be_finite(text: str) -> None:
    one = state(LOSS, finite="loss")
    assert said(one, "loss 1.5e3") == []
    value = float(text)
    assert said(one, f"loss {text}") == [f"r: loss of rank 0 (n1) is {value}: 'loss {text}'"]
    assert said(one, f"loss {text}", rank=1) == [], "once in a round"
    one.start(9.0)
    assert len(said(one, f"loss {text}")) == 1


@pytest.mark.parametrize("end", [",", ";", ")", ".", "),", "]"])
def test_what_follows_a_number_is_no_part_of_it(end: str) -> None:
    one = state(r"loss (\S+)", finite="1")
    assert said(one, f"loss 2.1{end}") == []
    assert len(said(one, f"loss nan{end}")) == 1


def test_what_is_no_number_is_told_and_breaks_nothing() -> None:
    one, line = state(r"loss (\S+)", finite="1"), b"loss abc\x1b\n"
    assert list(one.take(RankOutput(0, "n1", 1, line), line, 0.0)) == [
        RuleFinding(r"r: group 1 of rank 0 (n1) is not a number: 'loss abc\x1b'", False, NO_NUMBER)
    ]


def test_a_group_may_be_missing() -> None:
    one = state(r"step( loss (\S+))?", finite="2")
    assert (said(one, "step"), len(said(one, "step loss nan"))) == ([], 1)


def test_a_number_must_reach_a_new_low_in_so_many_lines_of_a_rank() -> None:
    one = state(LOSS, falls="loss", over=3)
    for text in ("9", "8", "8.5", "8", "7", "8", "7"):
        assert said(one, f"loss {text}") == []
    assert said(one, "loss 0", rank=1) == [], "another rank has lows of its own"
    assert said(one, "loss 6") == []
    why = "r: loss of rank 0 (n1) has not fallen below 7 in 3 lines: 'loss 7.5'"
    one.start(0.0)
    for text in ("7", "7", "nan"):
        assert said(one, f"loss {text}") == []
    assert said(one, "loss 7.5") == [why]
    assert said(one, "loss 7.5") == []


def test_long_lines_are_shown_in_part() -> None:
    one = state(every=1.0)
    said(one, "step " + "x" * 1000)
    (found,) = one.missed(1.0)
    assert found.text.endswith("x...' from rank 0 (n1)")
    assert len(found.text) < 220
