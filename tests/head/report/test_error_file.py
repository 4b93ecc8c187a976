"""What whoever has started a job finds in the error file that it has named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.report.error_file import text

from ...support.reports import LOSS, failure, report

TOLD: dict[str, Any] = {"message": "ValueError: no", "traceback": "Traceback ...\nValueError: no\n"}


def content(*failures: Any) -> Any:
    return json.loads(text(Ending("j", report(failures=failures))))


def test_it_is_the_error_of_the_first_failure_as_torch_writes_it() -> None:
    first, later = failure(at=112.0, code=-9, **TOLD), failure(at=112.5, rank=1, message="late")
    message = content(later, first)["message"]
    assert message.pop("extraInfo").keys() == {"py_callstack", "timestamp"}
    assert message == {"message": "ValueError: no", "errorCode": -9}
    assert content(first)["message"]["extraInfo"]["py_callstack"] == TOLD["traceback"]
    assert content(first)["message"]["extraInfo"]["timestamp"].isdecimal()


def test_a_message_of_a_signal_handler_stays_as_it_is() -> None:
    assert content(failure(message="SIGTERM")) == {"message": "SIGTERM"}


@pytest.mark.parametrize(
    "outcome",
    [
        report(),
        report(failures=(failure(),)),
        report(failures=(failure(at=112.0), failure(at=112.5, **TOLD))),
        report(losses=(LOSS,), failures=(failure(at=112.0, **TOLD),)),
        NodeError("n1: no python"),
    ],
    ids=["no failure", "none recorded", "not the first", "a loss first", "no start"],
)
def test_without_an_error_of_the_first_failure_there_is_none(outcome: Any) -> None:
    assert text(Ending("j", outcome)) == ""
