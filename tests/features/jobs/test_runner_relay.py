"""A run's output and events on their way to a caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from dsrun.launcher.control import frames
from dsrun.launcher.control.activity_messages import Activity
from dsrun.launcher.features.jobs.runner_relay import REPORT, Relay
from dsrun.launcher.head.run.events import RESULT, RankOutput, RanksActive, Started

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsrun.launcher.features.jobs.runner_server import LocalCaller
    from dsrun.launcher.head.output.console import Console


def nothing() -> None:
    """Do nothing."""


class FakeCaller:
    """Keeps what it is sent, and has read it when the test says so."""

    def __init__(self) -> None:
        self.open = True
        self.events: list[dict[str, Any]] = []
        self.chunks: list[bytes] = []
        self.unread: list[Callable[[], None]] = []

    def event(self, message: dict[str, Any]) -> None:
        self.events.append(message)

    def chunk(self, data: bytes, written: Callable[[], None]) -> None:
        self.chunks.append(data)
        self.unread.append(written)


class FakeScreen:
    """Keeps how it is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.on_broken_pipe: Callable[[], None] = nothing

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args: self.calls.append((name, *args))


@pytest.fixture
def caller() -> FakeCaller:
    return FakeCaller()


def relay_to(caller: FakeCaller, level: str = "info", screen: FakeScreen | None = None) -> Relay:
    return Relay(cast("LocalCaller", caller), level, cast("Console", screen) if screen else None)


def test_output_is_given_back_once_the_caller_has_read_it(caller: FakeCaller) -> None:
    relay, given = relay_to(caller), []
    relay.label(3, "n0:3| ", {2, 1})
    relay.feed(3, 1, b"line\n", lambda: given.append(1))
    relay.feed(3, REPORT, b"report", lambda: given.append(2))
    assert caller.events == [{"event": "Label", "rank": 3, "text": "n0:3| ", "streams": [1, 2]}]
    assert caller.chunks == [
        frames.output_body(3, 1, b"line\n"),
        frames.output_body(3, 3, b"report"),
    ]
    assert given == []
    caller.unread[0]()
    assert given == [1]
    caller.open = False
    relay.feed(3, 1, b"more", lambda: given.append(3))
    assert (given, len(caller.chunks)) == ([1, 3], 2)


def test_events_are_sent_by_their_names_and_output_only_once(caller: FakeCaller) -> None:
    relay = relay_to(caller)
    relay.tell(Started("j", 2, ("n0",), ("n0", 5)))
    relay.tell(RankOutput(0, "n0", 1, b"x"))
    relay.tell(RanksActive("n0", Activity(1.0, 0.0, ())))
    assert caller.events == [
        {
            "event": "Started",
            "job_id": "j",
            "world_size": 2,
            "hosts": ("n0",),
            "master": ("n0", 5),
            "role": "",
        }
    ]
    assert caller.chunks == []
    assert RESULT == REPORT


def test_messages_below_the_level_are_not_sent(caller: FakeCaller) -> None:
    relay = relay_to(caller, "warning")
    relay.log("quiet", "info")
    relay.log("loud\x1b[2J", "error")
    assert [relay.shows(level) for level in ("info", "warning")] == [False, True]
    assert caller.events == [{"event": "Log", "level": "error", "text": "loud\\x1b[2J"}]
    relay.status("waiting")
    relay.print_report("report")
    relay.on_broken_pipe()
    relay.close()
    assert len(caller.events) == 1


def test_a_screen_shows_everything_but_reports(caller: FakeCaller) -> None:
    screen = FakeScreen()
    relay, broken = relay_to(caller, screen=screen), []
    relay.on_broken_pipe = lambda: broken.append(1)
    screen.on_broken_pipe()
    relay.on_broken_pipe()
    assert broken == [1, 1]
    relay.fold(2, str)
    relay.label(0, "x", {1})
    relay.feed(0, 1, b"a", nothing)
    relay.feed(0, REPORT, b"r", nothing)
    relay.log("text")
    relay.status("s")
    relay.print_report("end")
    relay.close()
    assert [call[0] for call in screen.calls] == [
        *("fold", "label", "feed", "log", "status", "print_report", "close")
    ]
    assert caller.chunks == [frames.output_body(0, 3, b"r")]
    assert caller.events == []


def test_what_a_caller_is_sent_is_not_folded(caller: FakeCaller) -> None:
    relay, screen = relay_to(caller), FakeScreen()
    assert not relay.folds
    relay.fold(2, str)
    assert (caller.events, caller.chunks) == ([], [])
    assert relay_to(caller, screen=screen).folds
