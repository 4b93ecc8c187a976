"""The report of a job of roles: text, values and exit code."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from dsrun.launcher.common.errors import LOST, NO_PROGRESS, OUTPUT, NodeError, UsageError
from dsrun.launcher.features.roles.runner_ending import RolesEnding, Section
from dsrun.launcher.features.roles.runner_policy import Cause
from dsrun.launcher.head.report.ending import Ending
from dsrun.launcher.head.report.report import JobReport, WorkerFailure

from ...support import schemas


def report(**more: Any) -> JobReport:
    usual: dict[str, Any] = {"job_id": "j", "world_size": 2, "hosts": ("n0",)}
    return JobReport(**usual | {"began": 10.0, "ended": 14.0} | more)


def section(outcome: JobReport | Exception | None = None, **more: Any) -> Section:
    ending = None if outcome is None else Ending("j", outcome)
    usual: dict[str, Any] = {"ends": "never", "state": "ended", "ran": True, "restarts": 0}
    return Section(**usual | {"ending": ending} | more)


FAILED = report(
    failures=(
        WorkerFailure(at=12.0, rank=1, local_rank=1, host="n1", pid=7, code=3, stderr="oops"),
    )
)


def ending(cause: Cause | None, code: int, **sections: Section) -> RolesEnding:
    return RolesEnding("j", sections, cause, code, (10.0, 15.0))


def test_a_job_that_ends_well_says_nothing() -> None:
    ended = ending(None, 0, server=section(report(stopped=2)), trainer=section(report()))
    assert (ended.code, ended.words(), ended.text, ended.error) == (0, "", "", None)
    assert ended.data["cause"] == "none"


def test_the_first_failure_is_named_with_its_role_and_rank() -> None:
    ended = ending(Cause("trainer"), 3, server=section(report(stopped=2)), trainer=section(FAILED))
    assert ended.words().split("\n") == [
        "dsrun: trainer: rank 1 (n1, local rank 1, pid 7) exited with code 3 after 2.0 s",
        "  the end of its standard error:",
        "    oops",
        "  other roles: server (2 ranks stopped)",
    ]
    data = ended.data
    assert data["role"] == "trainer"
    assert data["sentence"].startswith("trainer: rank 1")
    assert data["first_failure"]["rank"] == 1
    roles: Any = data["roles"]
    assert roles["server"]["report"]["stopped"] == 2
    assert schemas.faults("report", data) == []


def test_a_role_that_breaks_a_rule_of_the_job_is_named_with_the_rule() -> None:
    why = "it was not ready after 20 s (ready_timeout)"
    ended = ending(Cause("server", why), NO_PROGRESS, server=section(report(stopped=1)))
    assert ended.words() == f"dsrun: server: {why} after 5.0 s"
    assert (ended.code, ended.data["cause"]) == (NO_PROGRESS, "role")


def test_a_signal_is_told_once_for_all() -> None:
    ended = ending(
        Cause(number=signal.SIGINT),
        130,
        server=section(report(stopped=1, stop_signal=2)),
        trainer=section(report(stopped=2, stop_signal=2)),
    )
    assert ended.words() == "dsrun: stopped by SIGINT after 5.0 s: 3 ranks told to stop"
    assert (ended.data["cause"], ended.data["signal"]) == ("signal", signal.SIGINT)


def test_a_job_that_could_not_be_started_has_an_error() -> None:
    refused = section(NodeError("n1: no such folder"), ran=False)
    ended = ending(Cause("trainer"), 69, server=section(report(), ran=False), trainer=refused)
    assert isinstance(ended.error, NodeError)
    assert str(ended.error) == "role trainer: n1: no such folder"
    assert (ended.code, ended.words(), ended.data["exit_code"]) == (69, "", 69)
    refused = section(UsageError("--console_ranks 7"), ran=False)
    assert ending(Cause("trainer"), 2, trainer=refused).code == 2


def test_a_role_that_cannot_start_again_is_in_the_report() -> None:
    lost = section(NodeError("n0: no answer"), restarts=3)
    ended = ending(Cause("server"), 69, server=lost, trainer=section(report(stopped=2)))
    assert ended.error is None
    assert ended.words().startswith("dsrun: server: n0: no answer")


def test_what_is_left_is_named_with_its_role() -> None:
    ended = ending(None, 0, server=section(report(left=("n0: pid 9",), unseen=("n1: pid 8",))))
    assert ended.words() == "  could not be stopped: server: n0: pid 9\n  server: n1: pid 8"
    assert ended.code == LOST


def test_lost_output_counts_if_nothing_else_does() -> None:
    assert ending(None, 0, server=section(report())).unwritten().code == OUTPUT
    assert ending(Cause("server"), 3, server=section(FAILED)).unwritten().code == 3


@pytest.mark.parametrize(
    "ended",
    [
        ending(None, 0, server=section(report(stopped=2)), trainer=section(report())),
        ending(Cause("trainer"), 3, server=section(None, ran=False), trainer=section(FAILED)),
        ending(Cause("server", "late"), NO_PROGRESS, server=section(report())),
        ending(Cause(number=signal.SIGINT), 130, server=section(report(stopped=1))),
        ending(Cause("trainer"), 69, trainer=section(NodeError("n1: no folder"), ran=False)),
        ending(Cause("trainer"), 69, trainer=section(NodeError("n1: no folder"), restarts=3)),
    ],
)
def test_reports_are_as_their_schema_says(ended: RolesEnding) -> None:
    assert schemas.faults("report", ended.data) == []


def test_what_may_run_where_an_earlier_run_was_is_told() -> None:
    ended = ending(None, 0, server=section(report(), unseen=("may still be running on n1: pid 8",)))
    assert ended.words() == "  server: may still be running on n1: pid 8"
    assert ended.data["unseen"] == ["server: may still be running on n1: pid 8"]
    assert ended.code == 0
