"""What the frames of commands and lanes say, there and back."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from dsrun.launcher.control import command_messages, frames, messages

ODD = "a\udcff\udc80 é€😀\n\0'\"\\"
LAST = (1 << 32) - 1


@pytest.mark.parametrize(
    "message",
    [
        command_messages.ExecCommand(1, (ODD, ""), {ODD: ODD}, ODD, True, 0.25, 1 << 18, 15.0),
        command_messages.CommandExit(LAST, -15, ODD),
        command_messages.LaneEnd(1, 69, ODD),
        command_messages.OpenLane(LAST, ("--program=container", ODD)),
    ],
)
def test_messages_come_back_as_they_were(message: NamedTuple) -> None:
    ((_, body),) = frames.Decoder().feed(messages.pack(200, message))
    shape: Any = type(message)
    back = messages.unpack(shape, body)
    assert back == message
    assert type(back) is type(message)


def test_a_number_fits_into_its_frames() -> None:
    ((_, body),) = frames.Decoder().feed(frames.pack_numbered(frames.LANE, LAST, b"x"))
    assert frames.unpack_numbered(body) == (LAST, b"x")
    too_much = command_messages.CommandExit(LAST + 1, 0, "")
    with pytest.raises(frames.BadFrame, match="id"):
        messages.unpack(command_messages.CommandExit, messages.pack(1, too_much)[5:])
