"""What stands above a picture: each sentence once."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.features.picture.runner_page import headline

SENTENCE, ADVICE = "the script has failed", "mend the script"
FAILED: dict[str, Any] = {
    "exit_code": 1,
    "seconds": 25.0,
    "first_failure": {"after_seconds": 18.0},
    "verdict": {"sentence": SENTENCE, "advice": ADVICE},
}
WHEN = "the job failed 18.0 s after it started"


@pytest.mark.parametrize(
    ("report", "title"),
    [
        ({"exit_code": 0, "verdict": None}, "dsrun: the job succeeded"),
        ({"exit_code": None}, "dsrun: the job is running"),
    ],
)
def test_a_job_without_a_report_in_words(report: dict[str, Any], title: str) -> None:
    assert headline(report, "", 2, 1) == (title, (), "")


def test_what_the_report_says_is_not_said_again() -> None:
    text = f"dsrun: rank 1 exited with code 1\n  boom\n  why: {SENTENCE}\n  try: {ADVICE}"
    found = headline(FAILED, text, 0, 0)
    assert found.title == "dsrun: rank 1 exited with code 1"
    assert found.lines == (f"{WHEN}, and lasted 25.0 s in all",)
    assert found.box == text.partition("\n")[2]


def test_what_it_does_not_say_is_said_above() -> None:
    found = headline(FAILED, f"dsrun: {SENTENCE}", 0, 0)
    assert found.lines[1:] == (ADVICE,)
    assert (found.title, found.box) == (f"dsrun: {SENTENCE}", "")


@pytest.mark.parametrize(
    ("title", "more"),
    [
        ("dsrun: rank 1 exited", ", in round 3, after 2 restarts"),
        ("dsrun: rank 1 exited after 2 restarts", ", in round 3"),
    ],
)
def test_both_times_and_the_restarts_are_said_once(title: str, more: str) -> None:
    assert headline(FAILED, title, 3, 2).lines[0] == f"{WHEN}{more}, and lasted 25.0 s in all"


def test_the_time_of_a_role_is_that_of_its_own_start() -> None:
    (line, *_) = headline({**FAILED, "role": "trainer"}, "dsrun: trainer: x", 0, 2).lines
    assert line == "trainer failed 18.0 s after it started, and the job lasted 25.0 s in all"


@pytest.mark.parametrize(
    "report",
    [
        {},
        {**FAILED, "exit_code": None},
        {**FAILED, "first_failure": None},
        {**FAILED, "seconds": "25"},
        {**FAILED, "first_failure": {"after_seconds": None}},
    ],
)
def test_a_time_that_is_not_known_is_not_said(report: dict[str, Any]) -> None:
    assert not [line for line in headline(report, "dsrun: x", 3, 2).lines if "after" in line]


def test_what_programs_say_is_escaped() -> None:
    report = {"exit_code": 1, "verdict": {"sentence": "a\x1b[2J", "advice": 7}}
    assert headline(report, "x\x1b\ny\x1b", 0, 0) == ("x\\x1b", ("a\\x1b[2J", "7"), "y\\x1b")
