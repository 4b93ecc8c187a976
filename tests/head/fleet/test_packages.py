"""Callers that ask for dsrun: each gets it, few at a time, and nobody can do more than ask."""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.backends.base import package_root
from dsrun.launcher.backends.package import ask, contents
from dsrun.launcher.common.loop import Timer
from dsrun.launcher.control import frames
from dsrun.launcher.head.fleet.callers import Caller
from dsrun.launcher.head.fleet.packages import AT_A_TIME, PATIENCE, Packages

from ...support.listeners import Runner, dialled, enter, runner

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["runner"]

ASK = frames.pack(frames.PACKAGE_ASK, contents.digest(package_root()).encode())


def test_many_at_once_all_get_it(runner: Runner) -> None:
    got: list[bytes] = []

    def get() -> None:
        target = f"127.0.0.1:{runner.listener.port}"
        got.append(ask.from_port(target, runner.pin, contents.digest(package_root())))

    asking = [threading.Thread(target=get) for _ in range(AT_A_TIME + 8)]
    for one in asking:
        one.start()
    for one in asking:
        one.join(30)
    assert got == [contents.archive(package_root())] * len(asking)
    assert runner.told == []


@pytest.mark.parametrize(
    "asked",
    [
        frames.pack(frames.PACKAGE_ASK, b"0" * 64),
        frames.pack(frames.PACKAGE_ASK),
        ASK + ASK,
    ],
)
def test_who_asks_for_anything_else_loses_the_connection(runner: Runner, asked: bytes) -> None:
    with dialled(runner) as line:
        line.send(asked)
        assert not line.wait(5.0)
    with dialled(runner) as line:
        enter(line)


def test_who_has_asked_cannot_become_a_node_on_the_same_connection(runner: Runner) -> None:
    with dialled(runner) as line:
        line.send(ASK)
        assert line.wait(5.0)
        line.send(frames.pack(frames.AUTH, b"{}"))
        assert not line.wait(5.0)
    assert runner.admitted == []


class Loop:
    """Records who may be written to, and how many could be; timers run when a test says so."""

    def __init__(self) -> None:
        self.writers = 0
        self.write: dict[int, Callable[[], None]] = {}
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def add_writer(self, fd: int, call: Callable[[], None]) -> None:
        self.writers += 1
        self.write[fd] = call

    def remove_writer(self, fd: int) -> None:
        del self.write[fd]

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append((seconds, call))
        return Timer(call)


class Play:
    """Packages, and callers from several sources; their connections are never used."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.dropped: list[str] = []
        self.packages = Packages(cast("Any", self.loop), self.serve, self.drop)

    @staticmethod
    def serve(caller: Caller, act: Callable[[Caller], bool]) -> None:
        act(caller)

    def drop(self, caller: Caller) -> None:
        self.dropped.append(caller.source)
        self.packages.remove(caller)

    def call(self, source: str) -> Caller:
        with socket.socket() as connection:
            caller = Caller(connection, source)
        self.packages.add(caller)
        return caller

    @property
    def served(self) -> int:
        return self.loop.writers


class Line:
    """A connection that takes in two parts what is sent."""

    def __init__(self) -> None:
        self.pending = 0

    def send(self, _data: bytes) -> None:
        self.pending = 2

    def flush(self) -> None:
        self.pending -= 1


def test_who_has_been_sent_all_is_not_written_to_any_more() -> None:
    play = Play()
    caller: Any = play.call("a")
    caller.line = Line()
    for _ in range(2):
        play.loop.write[caller.fd]()
    assert caller.line.pending == 1
    play.loop.write[caller.fd]()
    assert play.loop.write == {}


def test_one_source_gets_half_of_the_places() -> None:
    play = Play()
    callers = [play.call("a") for _ in range(AT_A_TIME)]
    assert play.served == AT_A_TIME // 2
    play.call("b")
    assert play.served == AT_A_TIME // 2 + 1
    play.packages.remove(callers[0])
    assert play.served == AT_A_TIME // 2 + 2


def test_all_places_are_for_those_who_came_first() -> None:
    play = Play()
    first, *_ = [play.call(str(source)) for source in range(AT_A_TIME)]
    waits = play.call("waits")
    assert play.served == AT_A_TIME
    play.packages.remove(waits)
    play.call("next")
    play.packages.remove(first)
    assert play.served == AT_A_TIME + 1
    assert first not in play.packages


def test_who_does_not_take_it_is_dropped_in_time() -> None:
    play = Play()
    caller = play.call("slow")
    ((seconds, expire),) = play.loop.timers
    assert seconds == PATIENCE
    expire()
    assert play.dropped == ["slow"]
    assert caller not in play.packages


def test_a_hash_is_known_once() -> None:
    play = Play()
    digest = contents.digest(package_root()).encode()
    with socket.socket() as connection:
        caller = Caller(connection, "a")
    assert play.packages.expects(caller, digest)
    assert not play.packages.expects(caller, digest[:-1])
    play.packages.add(caller)
    assert not play.packages.expects(caller, digest)
