"""Requests as lines of JSON, and their answers."""

from __future__ import annotations

import json

import pytest

from dsrun.launcher.common.errors import NodeError
from dsrun.launcher.control.frames import BadFrame
from dsrun.launcher.control.messages import Probed
from dsrun.launcher.features.full_check.node_answers import answers


def look(request: Probed) -> Probed:
    """Answer with the same, or as the request says."""
    if request.verdicts == ("os",):
        raise OSError(28, "No space left on device")
    if request.verdicts == ("node",):
        raise NodeError("no such thing")
    return request


REQUESTS = {"look": (Probed, look)}


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def test_each_line_is_answered_with_its_number() -> None:
    asked = [line(id=at, do="look", **{"with": {"verdicts": [str(at)]}}) for at in (1, 2)]
    assert list(answers(REQUESTS, asked)) == [
        {"id": 1, "reply": {"verdicts": ("1",)}},
        {"id": 2, "reply": {"verdicts": ("2",)}},
    ]


@pytest.mark.parametrize(
    ("how", "why"), [("os", "no space left on device"), ("node", "no such thing")]
)
def test_an_error_is_an_answer(how: str, why: str) -> None:
    asked = line(id=1, do="look", **{"with": {"verdicts": [how]}})
    assert list(answers(REQUESTS, [asked])) == [{"id": 1, "error": why}]


@pytest.mark.parametrize(
    "asked",
    [
        b"nonsense",
        line(id=1, do="other", **{"with": {}}),
        line(id=1, do="look"),
        line(id=1, do="look", **{"with": {"other": 1}}),
    ],
)
def test_what_is_no_request_ends_the_program(asked: bytes) -> None:
    with pytest.raises(BadFrame):
        list(answers(REQUESTS, [asked]))
