"""The facts of a node in its HELLO, there and back."""

from __future__ import annotations

from typing import Any

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.facts import DeviceFacts, Facts, Space
from dsrun.launcher.specs.field_types import Misfit, reader

ODD = "a\udcff\udc80 é€😀\n\0'\"\\"

FACTS = Facts(
    wall=1.5e9,
    python="3.11.2",
    python_path=ODD,
    versions={"torch": "2.4.0"},
    script="ab",
    files="",
    file_count=2001,
    env={"NCCL_DEBUG": ODD},
    limits={"nofile": 1024, "memlock": -1},
    memory=1 << 40,
    cgroup_memory=0,
    cpus=1.5,
    mtus={"eth0": 1500},
    spaces=(Space("tmp", ODD, 10, 5, -1, True),),
    devices=(DeviceFacts("0", "GPU", 80 << 30, 1, (ODD,), ("pid 12 (alice)",)),),
)


def test_facts_come_back_as_they_were() -> None:
    hello = messages.Hello("1", "h", "m", "3", "cpu", (), 1, None, (), (), 1.0, facts=FACTS)
    ((_, body),) = frames.Decoder().feed(messages.pack(frames.HELLO, hello))
    back = messages.unpack(messages.Hello, body)
    assert back.facts == FACTS
    assert back.facts is not None
    assert isinstance(back.facts.devices[0], DeviceFacts)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wall", "now"),
        ("wall", float("nan")),
        ("versions", {"torch": None}),
        ("limits", {"nofile": "many"}),
        ("limits", {"nofile": 1 << 70}),
        ("mtus", {"eth0": "1500"}),
        ("spaces", [["tmp", "/", 1, 1, 1]]),
        ("spaces", [["tmp", "/", -1, 1, 1, True]]),
        ("devices", [["0", "GPU", 1, 1, "problem", []]]),
        ("cpus", None),
        ("python_path", "\ud800"),
    ],
)
def test_a_field_that_is_not_valid_is_refused(name: str, value: Any) -> None:
    read = reader("Facts")
    assert read(list(FACTS)) == FACTS
    for row in ((FACTS._asdict() | {name: value}).values(), [*FACTS, 1]):
        with pytest.raises(Misfit):
            read(list(row))
