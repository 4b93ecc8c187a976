"""The steps of the full check over programs that a test plays."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control.messages import Probed
from dsrun.launcher.features.full_check.runner import END, LONGEST, run
from dsrun.launcher.features.full_check.runner_steps import (
    Step,
    StepFailed,
    StepRequest,
    StepResult,
)

from ...support.fake_programs import FakePrograms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsrun.launcher.features.full_check.runner_steps import Script

REPLY = {"verdicts": ["fine"]}
GOOD = Probed(("fine",))


def ask_all(names: Sequence[str], *, asks: int = 1) -> Script:
    """Ask every node so many times; the result has all answers."""
    seen = []
    for at in range(asks):
        answers = yield StepRequest(
            "look", {name: Probed((name,)) for name in names}, Probed, 2.0, f"round {at + 1}"
        )
        seen.append(dict(answers))
    return StepResult((), {"answers": seen})


class Checked:
    """A full check of two nodes with these steps."""

    def __init__(self, *steps: Step) -> None:
        self.programs = FakePrograms("n1", "n2")
        self.clock = self.programs.clock
        self.progress: list[str] = []
        self.results: list[dict[str, StepResult]] = []
        self.check = run(self.programs, steps, self.progress.append, self.results.append)

    def answers(self, at: int = 0) -> dict[str, object]:
        """What the script was answered by the first step's ask of this number."""
        (results,) = self.results
        seen = results["one"].measured["answers"][at]
        assert isinstance(seen, dict)
        return seen


@pytest.fixture
def one() -> Checked:
    return Checked(Step("one", "program", ask_all))


def test_a_script_is_sent_the_answers_of_all_nodes(one: Checked) -> None:
    assert one.programs.asked["n2"] == [{"id": 1, "do": "look", "with": {"verdicts": ["n2"]}}]
    one.programs.answer("n2", reply=REPLY)
    one.clock.settle()
    assert one.results == []
    one.programs.answer("n1", reply=REPLY)
    one.clock.settle()
    assert one.answers() == {"n1": GOOD, "n2": GOOD}
    assert one.programs.stops == 1
    assert one.progress == ["one", "one: round 1"]


def test_steps_follow_one_another_with_a_program_each() -> None:
    checked = Checked(Step("one", "first", ask_all), Step("two", "second", ask_all))
    for _ in range(2):
        for name in ("n1", "n2"):
            checked.programs.answer(name, reply=REPLY)
        checked.clock.settle()
    assert checked.programs.started == ["first", "second"]
    assert [list(results) for results in checked.results] == [["one", "two"]]


def test_a_node_without_an_answer_in_time_has_failed_and_is_not_waited_for_again(
    one: Checked,
) -> None:
    one.programs.answer("n1", reply=REPLY)
    one.clock.go(2.0)
    one.clock.settle()
    assert one.answers() == {"n1": GOOD, "n2": StepFailed("no answer within 2 s")}


def test_a_late_answer_is_none_to_the_next_request() -> None:
    checked = Checked(Step("one", "program", lambda names: ask_all(names, asks=2)))
    checked.programs.answer("n1", reply=REPLY)
    checked.clock.go(2.0)
    checked.clock.settle()
    checked.programs.answer("n2", reply={"verdicts": ["late"]})
    for name in ("n1", "n2"):
        checked.programs.answer(name, reply=REPLY)
    checked.clock.settle()
    assert checked.answers(1) == {"n1": GOOD, "n2": GOOD}


def test_a_node_whose_program_has_ended_is_not_asked_again() -> None:
    checked = Checked(Step("one", "program", lambda names: ask_all(names, asks=2)))
    checked.programs.end("n2", 1, "")
    checked.programs.answer("n1", reply=REPLY)
    checked.clock.settle()
    assert len(checked.programs.asked["n2"]) == 1
    checked.programs.answer("n1", reply=REPLY)
    checked.clock.settle()
    why = StepFailed("the program exited with code 1")
    assert [checked.answers(at)["n2"] for at in (0, 1)] == [why, why]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"nonsense", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "id: expected int"),
        (b'{"id": 1}', "neither reply nor error"),
        (b'{"id": 1, "reply": {"verdicts": 3}}', "verdicts: expected"),
        (b'{"id": 1, "error": "a \\u001b[31mred\\u0007 word"}', "a red\\x07 word"),
        (b" " * (LONGEST + 1), "more than"),
    ],
)
def test_whatever_a_node_sends_it_alone_has_failed(one: Checked, line: bytes, why: str) -> None:
    one.programs.line("n2", line)
    one.programs.answer("n1", reply=REPLY)
    one.clock.settle()
    failed = one.answers()["n2"]
    assert isinstance(failed, StepFailed)
    assert why in failed.why


def test_programs_that_do_not_end_are_waited_for_only_so_long(one: Checked) -> None:
    one.programs.obedient = False
    for name in ("n1", "n2"):
        one.programs.answer(name, reply=REPLY)
    one.clock.settle()
    assert one.results == []
    one.clock.go(END)
    assert len(one.results) == 1


def test_nothing_is_reported_after_a_stop(one: Checked) -> None:
    one.check.stop()
    assert one.programs.stops == 1
    one.programs.line("n1", json.dumps({"id": 1, "reply": REPLY}).encode())
    one.clock.go(60.0)
    assert one.results == []
