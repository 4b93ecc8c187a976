"""The live view as it is drawn: at every width, without markup or codes of others."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dsrun.launcher.features.jobs.command_screen import draw

from ...support.jobs import HOSTILE, NOW, status, view


def drawn(width: int, height: int, *jobs: object, colour: bool = False) -> str:
    """Return the view of these jobs as text."""
    file = io.StringIO()
    console = Console(
        file=file, width=width, height=height, force_terminal=colour, markup=False,
        highlight=False, color_system="standard" if colour else None,
    )  # fmt: skip
    views = [view(job) for job in jobs]  # type: ignore[arg-type]
    console.print(draw(views, NOW, width, height, hint="q: leave"))
    return file.getvalue()


@pytest.mark.parametrize("width", [30, 50, 70, 80, 100, 120, 200])
@pytest.mark.parametrize(("nodes", "ranks"), [(2, 2), (2, 8), (64, 8)])
def test_it_fits(width: int, nodes: int, ranks: int) -> None:
    text = drawn(width, 40, status(nodes, ranks, last=HOSTILE))
    lines = text.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= width
    assert "node-00" in text


def test_several_jobs_share_the_screen() -> None:
    jobs = [status(8, 8, job_id=f"job-{number}") for number in range(3)]
    text = drawn(120, 40, *jobs)
    assert len(text.splitlines()) <= 40
    assert [text.count(f"job-{number}") for number in range(3)] == [1, 1, 1]


def test_a_wide_screen_has_all_columns() -> None:
    text = drawn(160, 40, status())
    for heading in ("HOST, RANK", "STATE", "PID", "CPU", "MEMORY", "PROCESSES", "DEVICE", "LAST"):
        assert heading in text
    assert "step 7" in text
    assert "SLOW" not in text
    job = status()
    slow = job.ranks[0]._replace(slow="network")
    text = drawn(160, 40, job._replace(ranks=(slow, *job.ranks[1:])))
    assert text.count("network") == text.count("SLOW") == 1
    assert "DEVICE" not in drawn(160, 40, status()._replace(nodes=()))


def test_nothing_of_others_is_taken_for_markup_or_codes() -> None:
    text = drawn(200, 40, status(last=HOSTILE))
    assert "[red]bold[/]" in text
    assert "\x1b" not in text
    coloured = drawn(200, 40, status(last=HOSTILE), colour=True)
    assert "\x1b[2J" not in coloured
    assert "\x1b]0;" not in coloured


def test_without_a_job_it_says_so() -> None:
    assert "no job of yours is running" in drawn(80, 24)
