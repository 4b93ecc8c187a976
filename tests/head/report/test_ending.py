"""How a job has ended, as everybody is told."""

from __future__ import annotations

import pytest

from dsrun.launcher.common.errors import NodeError, UsageError
from dsrun.launcher.head.report.ending import Ending

from ...support.reports import LOSS, failure, report


def test_a_job_that_ends_well_says_nothing() -> None:
    ending = Ending("j", report())
    assert (ending.code, ending.text, ending.error) == (0, "", None)
    assert ending.data["cause"] == "none"


def test_a_good_end_is_told_of_several_hosts_alone() -> None:
    assert Ending("j", report()).good_end == "done after 13.2 s: 8 workers on 2 hosts"
    assert Ending("j", report(hosts=("w0",))).good_end == ""
    assert Ending("j", report(stop_signal=15, stop_is_clean=True)).good_end == ""
    assert Ending("j", report(unwritten=True)).good_end == ""
    assert Ending("j", report(failures=(failure(),))).good_end == ""
    assert Ending("j", UsageError("no")).good_end == ""


@pytest.mark.parametrize("what", [{"failures": (failure(),)}, {"losses": (LOSS,)}])
def test_a_job_that_fails_is_told_in_words_and_as_json(what: dict[str, object]) -> None:
    ending = Ending("j", report(**what))
    assert ending.text.startswith("dsrun: ")
    assert ending.text == ending.words(lambda _lines: False)
    assert ending.data["exit_code"] == ending.code != 0
    assert ending.data is ending.data


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (NodeError("n0: no python"), 69, {"error": "n0: no python"}),
        (ValueError("no"), 70, {"cause": "internal error", "error": "ValueError: no"}),
    ],
)
def test_an_error_takes_the_place_of_a_report(
    error: Exception, code: int, data: dict[str, object]
) -> None:
    ending = Ending("j", error)
    assert (ending.code, ending.text, ending.words()) == (code, f"dsrun: {error}", "")
    assert ending.data == {"format": 1, "job_id": "j", "exit_code": code, **data}
    assert ending.unwritten() is ending


def test_output_that_was_lost_is_an_exit_code_unless_there_is_a_worse_one() -> None:
    assert Ending("j", report()).unwritten().code == 74
    assert Ending("j", report()).unwritten().data["exit_code"] == 74
    assert Ending("j", report(failures=(failure(code=7),))).unwritten().code == 7
