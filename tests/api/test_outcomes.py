"""Results and errors of all ranks, from their reports and their exits."""

from __future__ import annotations

import json
import pickle

import pytest

from dsrun.launcher.api.errors import JobError, RankError
from dsrun.launcher.api.outcomes import Outcomes
from dsrun.launcher.api.report import Report
from dsrun.launcher.head.report.document import Failure
from dsrun.launcher.head.run.events import Exit, Round, Started

GOOD = Report("j", 0, "none", 1.0, 2, ("n0", "n1"), (), (), "", {})
STARTED = Started("j", 2, ("n0", "n1"), ("n0", 1))


def failure(rank: int, host: str = "n1") -> Failure:
    return Failure(rank, 0, host, 1, 1, None, 1, 0.1, "", "", "", "", "", "")


def report(value: object, state: str = "returned") -> bytes:
    body = pickle.dumps(value)
    words = f"{type(value).__name__}: {value}" if state == "raised" else ""
    head = {"state": state, "words": words, "text": f"Trace of {value}\n", "size": len(body)}
    return json.dumps(head).encode() + b"\n" + body


@pytest.fixture
def outcomes() -> Outcomes:
    found = Outcomes()
    found.note(STARTED)
    return found


def test_values_by_rank_in_pieces(outcomes: Outcomes) -> None:
    data = report({"loss": 1})
    for at in range(len(data)):
        outcomes.add(1, data[at : at + 1])
    outcomes.add(0, report(7))
    assert outcomes.results(GOOD) == {0: 7, 1: {"loss": 1}}
    assert outcomes.exceptions(GOOD) == {}


def test_a_script_returns_nothing(outcomes: Outcomes) -> None:
    assert outcomes.results(GOOD) == {0: None, 1: None}


def test_the_first_failure_is_raised_with_its_cause(outcomes: Outcomes) -> None:
    outcomes.add(0, report(ValueError("later"), "raised"))
    outcomes.add(1, report(KeyError("first"), "raised"))
    ended = GOOD._replace(exit_code=1, failures=(failure(1), failure(0, "n0")))
    with pytest.raises(RankError) as caught:
        outcomes.results(ended)
    error = caught.value
    assert str(error) == "rank 1 on n1: KeyError: 'first'\n\nTrace of 'first'"
    assert (error.rank, error.host, error.exit_code, error.report) == (1, "n1", 1, ended)
    assert error.traceback == "Trace of 'first'\n"
    assert isinstance(error.__cause__, KeyError)
    errors = outcomes.exceptions(ended)
    assert list(errors) == [0, 1]
    assert isinstance(errors[0], ValueError)


def test_a_rank_that_was_killed(outcomes: Outcomes) -> None:
    outcomes.note(Exit(1, "n1", 5, -9, False, "out of memory"))
    ended = GOOD._replace(exit_code=137, failures=(failure(1),))
    with pytest.raises(RankError) as caught:
        outcomes.results(ended)
    words = "rank 1 on n1 was killed by SIGKILL (signal 9) (out of memory)"
    assert str(caught.value) == words
    assert isinstance(outcomes.exceptions(ended)[1], RankError)


def test_what_a_stopped_rank_raises_is_no_failure(outcomes: Outcomes) -> None:
    outcomes.add(0, report(KeyboardInterrupt("stop"), "raised"))
    outcomes.note(Exit(0, "n0", 5, -15, True, ""))
    outcomes.note(Exit(1, "n1", 6, 3, False, ""))
    ended = GOOD._replace(exit_code=3, failures=(failure(1),))
    with pytest.raises(RankError, match=r"^rank 1 on n1 exited with code 3$"):
        outcomes.results(ended)
    assert list(outcomes.exceptions(ended)) == [1]


def test_a_job_that_ends_without_a_failure_of_a_rank(outcomes: Outcomes) -> None:
    ended = GOOD._replace(exit_code=75, cause="lost", text="dsrun: lost n1: unplugged")
    with pytest.raises(JobError) as caught:
        outcomes.results(ended)
    assert type(caught.value) is JobError
    assert (str(caught.value), caught.value.exit_code) == ("dsrun: lost n1: unplugged", 75)


def test_another_round_makes_earlier_reports_void(outcomes: Outcomes) -> None:
    outcomes.add(0, report(ValueError("old"), "raised"))
    outcomes.note(Exit(0, "n0", 5, 1, False, ""))
    outcomes.note(Round(2, 1, 1, ("n1",)))
    outcomes.add(0, report(8))
    assert outcomes.results(GOOD._replace(world_size=1)) == {0: 8}


def test_remote_text_cannot_reach_a_terminal_raw(outcomes: Outcomes) -> None:
    outcomes.add(1, report(ValueError("\x1b]0;title\x07"), "raised"))
    with pytest.raises(RankError) as caught:
        outcomes.results(GOOD._replace(exit_code=1, failures=(failure(1),)))
    assert "\x1b" not in str(caught.value)
    assert "\\x1b]0;title" in str(caught.value)
