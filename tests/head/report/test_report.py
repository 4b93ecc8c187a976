"""What follows from the end of a job: its cause and its exit code."""

from __future__ import annotations

import signal

import pytest

from dsrun.launcher.head.fleet.node_connection import NodeConnection
from dsrun.launcher.head.report.document import fields
from dsrun.launcher.head.report.report import JobReport, duration
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.plan import lay_out

from ...support.reports import LOSS, failure, report


@pytest.mark.parametrize(
    ("ended", "code"),
    [
        (report(), 0),
        (report(failures=(failure(code=7),)), 7),
        (report(failures=(failure(code=255),)), 255),
        (report(failures=(failure(code=-9),)), 137),
        (report(failures=(failure(code=-11),)), 139),
        (report(failures=(failure(code=-64),)), 192),
        (report(failures=(failure(at=111, code=3), failure(at=110, code=4))), 4),
        (report(failures=(failure(at=110, code=4), failure(at=111, code=3))), 4),
        (report(failures=(failure(at=109, code=4),), losses=(LOSS,)), 4),
        (report(failures=(failure(at=111, code=4),), losses=(LOSS,)), 75),
        (report(losses=(LOSS,)), 75),
        (report(left=("w0: pid 3",)), 75),
        (report(left=("w0: pid 3",), failures=(failure(code=7),)), 7),
        (report(stop_signal=signal.SIGINT), 130),
        (report(stop_signal=signal.SIGTERM), 143),
        (report(stop_signal=signal.SIGTERM, stop_is_clean=True), 0),
        (report(stop_signal=signal.SIGTERM, failures=(failure(code=7),), losses=(LOSS,)), 143),
        (report(stop_is_clean=True), 0),
        (report(broken_pipe=True), 141),
        (report(broken_pipe=True, failures=(failure(code=7),)), 141),
        (report(broken_pipe=True, stop_signal=signal.SIGINT), 130),
    ],
)
def test_exit_codes(ended: JobReport, code: int) -> None:
    assert ended.exit_code == code
    assert fields(ended)["exit_code"] == code


def test_the_cause_is_the_first_by_the_runners_clock_whatever_arrives_first() -> None:
    """Two nodes with clocks of their own: the one that tells last may have failed first."""
    slow, fast = (NodeConnection(node) for node in lay_out([Host("w0", (0,)), Host("w1", (0,))]))
    for clock, now in [(5000.0, 100.5), (5001.0, 101.1), (5002.0, 109.0)]:
        slow.read_clock(clock, now)
    fast.read_clock(7.0, 100.2)
    assert (slow.offset, fast.offset) == (101.1 - 5001.0, 100.2 - 7.0)
    first = failure(at=5010.0 + slow.offset, rank=0, code=1)
    then = failure(at=17.0 + fast.offset, rank=4, code=2)
    ended = report(failures=(then, first))
    assert ended.first == ended.cause == first
    assert ended.exit_code == 1


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (90_000, "25 h 0 min"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
