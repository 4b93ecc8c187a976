"""The messages that dsrun-job causes, there and back, and with fields of other types."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.job_messages import (
    DeviceUsage,
    EndedJob,
    EndJob,
    RankUsage,
    Usage,
)

RANK = RankUsage(3, 4003, "R", 12.5, 1 << 30, 4)
DEVICE = DeviceUsage(0, "GPU-1", 97, 1 << 33, 1 << 36)
USAGE = Usage(99.25, 8, 0.5, 1 << 34, 1 << 33, (RANK,), (DEVICE, DEVICE._replace(busy=None)))


def body_of(message: NamedTuple) -> bytes:
    return messages.pack(frames.REPLY, message)[5:]


def test_usage_comes_back_with_rows() -> None:
    back = messages.unpack(Usage, body_of(USAGE))
    assert [RankUsage(*row) for row in back.ranks] == [RANK]
    assert [DeviceUsage(*row) for row in back.devices] == list(USAGE.devices)
    assert back._replace(ranks=(), devices=()) == USAGE._replace(ranks=(), devices=())


@pytest.mark.parametrize("message", [EndJob("j\udcff", 15, 0.5), EndedJob(("pid 3",), ())])
def test_the_others_come_back_as_they_were(message: NamedTuple) -> None:
    shape: Any = type(message)
    assert messages.unpack(shape, body_of(message)) == message


@pytest.mark.parametrize(
    ("message", "wrong", "fault"),
    [
        (
            USAGE,
            {"ranks": [[3, 4003, "R", 1.5, 1]]},
            r"ranks\[0\].*: expected",
        ),
        (
            USAGE,
            {"ranks": [[3, 4003, "R", "x", 1, 1]]},
            r"ranks\[0\].*: expected",
        ),
        (
            USAGE,
            {"ranks": [[3, -1, "R", 1.0, 1, 1]]},
            r"ranks\[0\].*: expected",
        ),
        (USAGE, {"devices": [[0, "GPU", 1.5, 1, 1]]}, r"devices\[0\].*: expected"),
        (USAGE, {"devices": {}}, "devices: expected"),
        (USAGE, {"load": None}, "load: expected float"),
        (USAGE, {"total": -1}, "total: expected Size"),
        (EndJob("j", 15, 1.0), {"number": 99}, "number: expected Signal"),
        (EndJob("j", 15, 1.0), {"job_id": "\ud800"}, "job_id: expected str"),
        (EndedJob((), ()), {"left": [1]}, r"left\[0\]: expected str"),
    ],
)
def test_values_of_another_type_are_refused(
    message: NamedTuple, wrong: dict[str, object], fault: str
) -> None:
    shape: Any = type(message)
    changed = json.dumps({**json.loads(body_of(message)), **wrong}).encode()
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        messages.unpack(shape, changed)
