"""The report of a job as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.common.formats import as_json
from dsrun.launcher.head.report.document import crash_fields, fields
from dsrun.launcher.head.report.report import JobReport

from ...support.reports import LOSS, failure, report


def test_as_json() -> None:
    first = failure(
        code=-9,
        hint="oom",
        stderr="e",
        stdout="o",
        log="/l/rank-0005.err",
        evidence=("disk: full",),
        message="m",
        traceback="t",
    )
    ended = report(failures=(failure(at=113.0, rank=0, code=3), first), stopped=6, left=("x",))
    ended = ended._replace(pythons=(("w0", "/env/bin/python"),), python_origin=".venv")
    as_first = {
        "rank": 5,
        "local_rank": 1,
        "host": "w1",
        "pid": 4321,
        "code": None,
        "signal": "SIGKILL",
        "exit_code": 137,
        "after_seconds": 12.5,
        "hint": "oom",
        "stderr": "e",
        "stdout": "o",
        "message": "m",
        "traceback": "t",
        "log": "/l/rank-0005.err",
        "evidence": ["disk: full"],
    }
    as_second = {
        "rank": 0,
        "local_rank": 0,
        "host": "w0",
        "pid": 4321,
        "code": 3,
        "signal": None,
        "exit_code": 3,
        "after_seconds": 13.0,
        "hint": "",
        "stderr": "",
        "stdout": "",
        "message": "",
        "traceback": "",
        "log": "",
        "evidence": [],
    }
    assert as_json(fields(ended)) == {
        "job_id": "j",
        "exit_code": 137,
        "seconds": 13.25,
        "world_size": 8,
        "pythons": [{"host": "w0", "path": "/env/bin/python", "origin": ".venv"}],
        "hosts": ["w0", "w1"],
        "cause": "failure",
        "first_failure": as_first,
        "failures": [as_first, as_second],
        "lost": [],
        "stopped": 6,
        "signal": None,
        "left": ["x"],
        "unseen": [],
        "verdict": {"class": "unknown", "retry": "unknown", "sentence": "", "advice": ""},
    }


@pytest.mark.parametrize(
    ("ended", "cause", "number"),
    [
        (report(), "none", None),
        (report(losses=(LOSS,), failures=(failure(),)), "lost", None),
        (report(stop_signal=15, failures=(failure(),)), "signal", 15),
        (report(broken_pipe=True, losses=(LOSS,)), "broken pipe", None),
    ],
)
def test_causes_as_json(ended: JobReport, cause: str, number: int | None) -> None:
    shown = as_json(fields(ended))
    assert (shown["cause"], shown["signal"]) == (cause, number)
    assert shown["lost"] == [{"host": one.host, "reason": one.reason} for one in ended.losses]


def test_a_crash_as_json() -> None:
    assert crash_fields("j", ValueError("two\nlines \x1b[2J")) == {
        "job_id": "j",
        "exit_code": 70,
        "cause": "internal error",
        "error": "ValueError: two lines \\x1b[2J",
    }


def test_a_code_is_a_code_or_a_signal() -> None:
    ended = report(failures=(failure(code=0), failure(at=120.0, code=-9)))
    rows: Any = as_json(fields(ended))["failures"]
    names = ("code", "signal", "exit_code")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (0, None, 0),
        (None, "SIGKILL", 137),
    ]
