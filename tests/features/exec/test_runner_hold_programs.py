"""Programs of dsrun over a hold, whose end of the connection a test plays."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.errors import LOST
from dsrun.launcher.control import frames
from dsrun.launcher.control.local import LocalStream
from dsrun.launcher.control.local_client import LocalClient
from dsrun.launcher.features.exec.runner_hold_programs import HoldPrograms
from dsrun.launcher.features.exec.runner_programs import LONGEST

from ...support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.features.exec.runner_hold_programs import HoldProgram


class Played:
    """The programs, and the other end of their connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        ours, theirs = socket.socketpair()
        self.hold = LocalStream(theirs)
        self.programs = HoldPrograms(self.clock.loop, LocalClient(ours), ["n0", "n1"])
        self.said: list[Any] = []

    def start(self, **arguments: list[str]) -> HoldProgram:
        def line(host: str, line: bytes) -> None:
            self.said.append((host, line))

        def end(host: str, code: int, why: str) -> None:
            self.said.append((host, code, why))

        return self.programs.start("facts", arguments, line, end)

    def requests(self) -> list[dict[str, Any]]:
        return [frames.unpack_json(body) for _, body in self.hold.receive()]

    def say(self, *sent: bytes) -> None:
        for frame in sent:
            self.hold.send(frame)
        self.clock.settle()
        while self.hold.pending:
            self.hold.flush()
            self.clock.settle()

    def prints(self, number: int, data: bytes) -> None:
        self.say(frames.pack(frames.CHUNK, frames.output_body(number, 1, data)))

    def ends(self, number: int, code: int, why: str = "") -> None:
        fields = {"event": "program_ended", "program": number, "code": code, "why": why}
        self.say(frames.pack_json(frames.EVENT, fields))


@pytest.fixture
def played() -> Iterator[Played]:
    one = Played()
    yield one
    one.programs.close()
    one.hold.close()


def test_each_host_is_a_request(played: Played) -> None:
    running = played.start(n0=["a"], n1=["b"])
    first, second = played.requests()
    assert (first["do"], first["program"], first["host"]) == ("program", "facts", "n0")
    assert (second["host"], second["arguments"]) == ("n1", ["b"])
    played.say(frames.pack_json(frames.ANSWER, {"ok": True, "id": first["id"]}))
    played.prints(second["id"], b"one\ntwo\n")
    played.ends(second["id"], 0)
    played.ends(first["id"], 3, "why")
    assert played.said == [("n1", b"one"), ("n1", b"two"), ("n1", 0, ""), ("n0", 3, "why")]
    running.send("n1", b"\xff\n")
    running.stop()
    sent, *stops = played.requests()
    assert (sent["do"], sent["program"]) == ("program_input", second["id"])
    assert sent["data"].encode("utf-8", "surrogateescape") == b"\xff\n"
    assert [one["do"] for one in stops] == ["program_stop"] * 2
    assert {one["program"] for one in stops} == {first["id"], second["id"]}


def test_a_refusal_is_the_end(played: Played) -> None:
    played.start(n0=[], n1=[])
    first, _ = played.requests()
    refusal = {"ok": False, "error": "n0: lost", "code": 69, "id": first["id"]}
    played.say(frames.pack_json(frames.ANSWER, refusal))
    assert played.said == [("n0", LOST, "n0: lost")]


def test_the_end_of_the_hold_ends_all(played: Played) -> None:
    running = played.start(n0=[], n1=[])
    played.hold.close()
    played.clock.settle()
    assert played.said == [("n0", LOST, "the hold has ended"), ("n1", LOST, "the hold has ended")]
    running.send("n0", b"late\n")
    running.stop()
    played.clock.settle()
    assert len(played.said) == 2


def test_a_start_on_a_hold_that_has_gone_is_reported(played: Played) -> None:
    played.hold.close()
    for _ in range(2):
        played.start(n0=[], n1=[])
    played.clock.settle()
    assert [one[:2] for one in played.said] == [("n0", LOST), ("n1", LOST)] * 2


@pytest.mark.parametrize("body", [b"", b"\0\0\0\1\x09x"])
def test_what_is_not_valid_ends_all(body: bytes, played: Played) -> None:
    played.start(n0=[])
    played.say(frames.pack(frames.CHUNK, body))
    assert played.said == [("n0", LOST, "the hold sent an invalid message")]


def test_a_flood_is_ended(played: Played) -> None:
    played.start(n0=[])
    (request,) = played.requests()
    for _ in range(9):
        played.prints(request["id"], b"x" * (LONGEST // 8))
    assert played.said == [("n0", 1, "it printed a line that is too long")]
    assert [one["do"] for one in played.requests()] == ["program_stop"]
