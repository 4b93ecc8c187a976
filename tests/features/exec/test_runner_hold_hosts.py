"""Commands over a hold, whose end of the connection a test plays."""

from __future__ import annotations

import os
import socket
from typing import Any

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.local import LocalStream
from dsrun.launcher.control.local_client import LocalClient
from dsrun.launcher.features.exec.runner_events import (
    HostCommand,
    HostEnded,
    HostFailed,
    HostOutput,
)
from dsrun.launcher.features.exec.runner_hold_hosts import HoldHosts

from ...support.clock import Clock


class Played:
    """The transport, and the other end of its connection."""

    def __init__(self) -> None:
        self.clock = Clock()
        ours, theirs = socket.socketpair()
        self.hold = LocalStream(theirs)
        self.hosts = HoldHosts(self.clock.loop, LocalClient(ours), ["n0", "n1"], print)
        self.events: list[Any] = []
        self.hosts.on_event = self.events.append

    def requests(self) -> list[dict[str, Any]]:
        return [frames.unpack_json(body) for _, body in self.hold.receive()]

    def say(self, *sent: bytes) -> None:
        """Let the hold send frames."""
        for frame in sent:
            self.hold.send(frame)
        self.clock.settle()

    def event(self, **fields: object) -> None:
        self.say(frames.pack_json(frames.EVENT, fields))


@pytest.fixture
def played() -> Played:
    return Played()


def test_output_and_ends_arrive(played: Played) -> None:
    played.hosts.start(HostCommand(("ls", "-l"), "/w"))
    (request,) = played.requests()
    assert request["argv"] == ["ls", "-l"]
    assert (request["do"], request["workdir"], request["hosts"]) == ("exec", "/w", ["n0", "n1"])
    played.say(frames.pack_json(frames.ANSWER, {"ok": True, "id": 1}))
    played.say(frames.pack(frames.CHUNK, frames.output_body(1, 2, b"err")))
    played.event(event="ended", host="n1", code=3)
    played.event(event="failed", host="n0", cause="no route", began=False)
    assert played.events == [
        HostOutput("n1", 2, b"err"),
        HostEnded("n1", 3),
        HostFailed("n0", "no route", began=False),
    ]
    played.hosts.close()
    played.hold.close()


def test_a_refusal_is_the_cause_for_all(played: Played) -> None:
    played.hosts.start(HostCommand(("ls",)))
    refusal = {"ok": False, "error": "the hold is ending", "code": 69, "id": 1}
    played.say(frames.pack_json(frames.ANSWER, refusal))
    assert played.events == [
        HostFailed("n0", "the hold is ending", began=False),
        HostFailed("n1", "the hold is ending", began=False),
    ]
    played.hosts.close()
    played.hold.close()


def test_input_goes_into_a_pipe(played: Played) -> None:
    played.hosts.start(HostCommand(("cat",), "", frozenset({"n1"})))
    (request,) = played.requests()
    assert (request["readers"], request["fds"]) == (["n1"], 1)
    (pipe,) = played.hold.take(1)
    data = b"x" * 200_000
    played.hosts.send(data)
    played.hosts.send(b"")
    assert played.hosts.backlog() > 0
    got = b""
    while block := os.read(pipe, 65536):
        got += block
        played.clock.settle()
    assert got == data
    assert played.hosts.backlog() == 0
    os.close(pipe)
    played.hosts.close()
    played.hold.close()


def test_stopping_is_a_request(played: Played) -> None:
    played.hosts.start(HostCommand(("ls",)))
    played.requests()
    played.hosts.stop()
    assert [request["do"] for request in played.requests()] == ["exec_stop"]
    played.hosts.close()
    played.hold.close()


def test_the_end_of_the_hold_is_the_end_of_the_command(played: Played) -> None:
    played.hosts.start(HostCommand(("ls",)))
    played.event(event="ended", host="n1", code=0)
    played.hold.close()
    played.clock.settle()
    assert played.events[1:] == [HostFailed("n0", "the hold has ended", began=True)]
    played.hosts.stop()
    played.hosts.close()


@pytest.mark.parametrize(
    "frame",
    [
        frames.pack(frames.CHUNK, frames.output_body(7, 1, b"x")),
        frames.pack(frames.CHUNK, b""),
        frames.pack_json(frames.EVENT, {"event": "ended", "host": "n7", "code": 0}),
        frames.pack_json(
            frames.EVENT, {"event": "failed", "host": "n7", "cause": "", "began": True}
        ),
    ],
)
def test_what_makes_no_sense_ends_it(frame: bytes, played: Played) -> None:
    played.hosts.start(HostCommand(("ls",)))
    played.say(frame)
    assert [event.host for event in played.events] == ["n0", "n1"]
    assert all("invalid" in event.cause for event in played.events)
    played.hosts.close()
    played.hold.close()


def test_what_nobody_has_foreseen_ends_it(
    played: Played, unexpected_faults: list[Exception]
) -> None:
    played.hosts.start(HostCommand(("ls",)))
    arrived: list[Any] = []

    def on_event(event: Any) -> None:
        arrived.append(event)
        if isinstance(event, HostOutput):
            raise KeyError(event.host)

    played.hosts.on_event = on_event
    played.say(frames.pack(frames.CHUNK, frames.output_body(0, 1, b"x")))
    assert [event.host for event in arrived] == ["n0", "n0", "n1"]
    assert arrived[1].cause == "the hold sent an invalid message (KeyError: 'n0')"
    unexpected_faults.clear()
    played.hosts.close()
    played.hold.close()


def test_paused_output_is_not_read(played: Played) -> None:
    played.hosts.start(HostCommand(("ls",)))
    played.hosts.pause(True)
    played.event(event="ended", host="n1", code=0)
    assert played.events == []
    played.hosts.pause(False)
    played.clock.settle()
    assert played.events == [HostEnded("n1", 0)]
    played.hosts.close()
    played.hold.close()
