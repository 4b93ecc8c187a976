"""The messages about network interfaces, there and back."""

from __future__ import annotations

import pytest

from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.reach_messages import (
    Dial,
    Interface,
    Network,
    Reach,
    Reached,
)
from dsrun.launcher.specs.field_types import Misfit, reader

NETWORK = Network(4711, "t", "10.0.0.1", ("ib0",), (Interface("ib0", "10.0.0.1"),))


def test_a_network_comes_back_in_its_hello() -> None:
    hello = messages.Hello("1", "h", "m", "3", "cpu", (), 1, None, (), (), 1.0, network=NETWORK)
    ((_, body),) = frames.Decoder().feed(messages.pack(frames.HELLO, hello))
    back = messages.unpack(messages.Hello, body)
    assert back.network == NETWORK
    assert isinstance(NETWORK.interfaces[0], Interface)


@pytest.mark.parametrize(
    "row",
    [
        [4711, "t", "", [], [["eth\n0", "10.0.0.1"]]],
        [4711, "t", "", [], ["eth0"]],
        [4711, "t", "\x1b[1m", [], []],
        [4711, "t", "", [3], []],
        [70_000, "t", "", [], []],
        [4711, None, "", [], []],
    ],
)
def test_a_network_that_is_not_valid_is_refused(row: list[object]) -> None:
    read = reader("Network")
    assert read([4711, "t", "", [], []]) == Network(4711, "t", "", (), ())
    with pytest.raises(Misfit):
        read(row)


def test_requests_and_answers_come_back() -> None:
    request = Reach(3, (Dial("10.0.0.1", 4711, "t"),), {"A": "b"})
    ((kind, body),) = frames.Decoder().feed(messages.pack(frames.REACH, request))
    back = messages.unpack(Reach, body)
    assert (kind, back.dials[0], back.variables) == (23, request.dials[0], {"A": "b"})
    with pytest.raises(frames.BadFrame, match=r"verdicts\[0\]: expected Name"):
        messages.unpack(Reached, b'{"id":1,"verdicts":["\\u001b[1m"]}')
