"""Durations: the forms that options take, and those that they refuse."""

from __future__ import annotations

import re

import pytest

from dsrun.launcher.cli.durations import FORMS, seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30", 30.0),
        ("0", 0.0),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("90s", 90.0),
        ("0s", 0.0),
        ("30m", 1800.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1h30m5s", 5405.0),
        ("1h5s", 3605.0),
        ("90m", 5400.0),
        ("1.5h", 5400.0),
        ("2m.5s", 120.5),
    ],
)
def test_a_duration_is_read_in_seconds(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "s", "h30m", "soon", "30x", "30 s", "1h 30m", "1h30", "30m1h", "1m1m", "1hm"),
        *("-1s", "+1s", "1-h", "1.2.3s", "1e3s", "infs", "nanm", "1d", "100ms", "30M", "٣s"),
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser writes the message
        seconds(text)


def test_the_forms_that_the_message_shows_are_durations() -> None:
    shown = re.split(", | or ", FORMS)
    assert [seconds(one) for one in shown] == [30.0, 90.0, 1800.0, 7200.0, 5400.0]
