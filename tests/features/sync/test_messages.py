"""What a node says of its copy of a folder: every answer, and what is none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.features.sync import messages as sync_answers
from dsrun.launcher.features.sync.messages import (
    Blocked,
    CopyBusy,
    CopyReady,
    ManifestAsked,
    Needed,
    NoCopy,
    Shared,
)

if TYPE_CHECKING:
    from dsrun.launcher.features.sync.messages import Answer

ANSWERS = (
    *(Shared(), CopyBusy(), ManifestAsked(), Needed(()), Needed((0, 7)), NoCopy("no space")),
    *(CopyReady("/copy/\udcff", "/lock", 1), Blocked(("a", "\udcff"), 2, "/copy")),
)


@pytest.mark.parametrize("answer", ANSWERS)
def test_every_answer_arrives_as_it_was_said(answer: Answer) -> None:
    assert sync_answers.unpack(json.dumps(answer._asdict()).encode()) == answer


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"\xff", b"{}", b"[]", b'{"ready":"/copy"}', b'{"unknown":1}', b'{"need":[1e3]}'),
        *(b'{"need":[' + b"9" * 5000 + b"]}", b'{"shared":1}', b'{"failed":"\\ud800"}'),
        b'{"ready":"/copy","lock":"/lock","number":-1}',
    ],
)
def test_anything_else_is_none(line: bytes) -> None:
    with pytest.raises(frames.BadFrame):
        sync_answers.unpack(line)
