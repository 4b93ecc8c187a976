"""The hangs of a job, in words and as JSON."""

from __future__ import annotations

from dsrun.launcher.common.formats import versioned
from dsrun.launcher.features.watch.runner_hang_report import Hang
from dsrun.launcher.head.doors import REPORT_SECTIONS
from dsrun.launcher.head.report.document import fields
from dsrun.launcher.head.report.report import JobReport, Loss
from dsrun.launcher.head.report.words import words

from ...support import schemas

SENTENCE = "rank 7 (n3) has been in load (data.py:8) for 62 s"
HANG = Hang(130.0, SENTENCE, (7,), ("n3",), 62.0)


def report(*hangs: Hang, losses: tuple[Loss, ...] = ()) -> JobReport:
    known = JobReport("j", 8, ("n0",), 100.0, 150.0, losses=losses, found=hangs)
    return known._replace(sections=REPORT_SECTIONS)


def test_a_hang_that_did_not_end_is_told_beneath_what_ended_the_job() -> None:
    lost = Loss(149.0, "n3", "no heartbeat for 15 s")
    assert words(report(HANG, losses=(lost,))).splitlines() == [
        "dsrun: lost n3 after 49.0 s: no heartbeat for 15 s",
        f"  it hung before: {SENTENCE}",
    ]


def test_nothing_is_told_twice_nor_of_a_job_that_went_on_or_ended_well() -> None:
    cause = Loss(149.0, "", SENTENCE, 77, "stopped the job")
    assert words(report(HANG, losses=(cause,))).count(SENTENCE) == 1
    assert SENTENCE not in words(report(HANG._replace(lasted=80.0), losses=(LOST,)))
    assert words(report(HANG)) == ""


LOST = Loss(149.0, "n3", "gone")


def test_json_has_every_hang_with_its_times_from_the_start_on() -> None:
    data = versioned(
        "report", fields(report(HANG, HANG._replace(ranks=(), hosts=(), lasted=80.04321)))
    )
    one = {"after_seconds": 30.0, "sentence": SENTENCE, "seconds": 62.0}
    assert data["hangs"] == [
        {**one, "ranks": [7], "hosts": ["n3"], "lasted": None},
        {**one, "ranks": [], "hosts": [], "lasted": 80.043},
    ]
    assert schemas.faults("report", data) == []
    assert "hangs" not in fields(report())
