"""The list of jobs and holds as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.features.jobs.command_read import (
    JobRow,
    age,
    of_hold,
    of_job,
    of_silent,
    table,
)

from ...support.jobs import HOSTILE, NOW, status

if TYPE_CHECKING:
    from dsrun.launcher.features.hold.runner_json_types import HoldJson

HOLD: HoldJson = {
    "name": "cosy",
    "version": "1",
    "launcher": "ssh",
    "state": "serving",
    "since": NOW - 90,
    "hosts": [
        {"name": "n0", "slots": [0, 1], "state": "free", "reason": ""},
        {"name": "n1", "slots": [0, 1], "state": "lost", "reason": "power"},
    ],
    "runs": [],
    "last": "lost n1: power",
}


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (3599, "59m59s"),
        (3700, "1h01m"),
        (86399, "23h59m"),
        (100 * 86400 + 3 * 3600, "100d03h"),
    ],
)
def test_a_time_in_two_units(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_a_job_that_does_well() -> None:
    row = of_job(status(), NOW)
    job = "20261122-101112-abcdef"
    assert row == JobRow(job, "running", "2", "4", "1h01m", "train.py --lr 1", "0| step 7")


def test_a_job_with_losses_and_rounds() -> None:
    job = status()
    lost = job.nodes[0]._replace(state="lost", reason="power")
    row = of_job(job._replace(nodes=(lost, job.nodes[1]), running=2, round=3, last=""), NOW)
    assert (row.state, row.nodes, row.ranks, row.last) == ("running, round 3", "1/2", "2/4", "")


def test_a_job_whose_size_is_not_known() -> None:
    assert of_job(status()._replace(world_size=0, running=0), NOW).ranks == "0/?"


def test_a_hold() -> None:
    row = of_hold(HOLD, NOW)
    assert row == JobRow(
        "cosy", "serving", "1/2", "4", "1m30s", "hold with 0 runs", "lost n1: power"
    )


def test_who_does_not_answer_is_listed_by_name() -> None:
    assert table([of_silent("cosy")]).splitlines()[1].split() == ["cosy", "no", "answer"]


def test_every_line_is_one_line_and_safe() -> None:
    job = status(last=HOSTILE)._replace(program=HOSTILE)
    text = table([of_job(job, NOW)])
    assert text.count("\n") == 2
    assert text.replace("\n", "").isprintable()
    assert "[red]bold[/]" in text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_lines_fit_the_width(width: int) -> None:
    rows = [of_job(status(last="x" * 300)._replace(program="y" * 300), NOW)]
    assert max(map(len, table(rows, width).splitlines())) <= width
    assert max(map(len, table(rows).splitlines())) > 600
