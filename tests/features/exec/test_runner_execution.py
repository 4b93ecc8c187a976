"""One command on hosts that a test plays."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import UsageError
from dsrun.launcher.features.exec import runner_results as results
from dsrun.launcher.features.exec.runner_events import HostCommand, HostNote
from dsrun.launcher.features.exec.runner_execution import (
    STATUS,
    STOP,
    UNENDED,
    Execution,
    StopCause,
)
from dsrun.launcher.features.exec.runner_input_broadcast import from_blocks
from dsrun.launcher.head.output.console import Console

from ...support.clock import Clock
from ...support.fake_hosts import FakeHosts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dsrun.launcher.common.loop import Loop
    from dsrun.launcher.features.exec.runner_events import Transport
    from dsrun.launcher.features.exec.runner_input_broadcast import InputBroadcast

TRUE = HostCommand(("true",))


class Named:
    """A console that keeps the status line."""

    def __init__(self, shown: list[str]) -> None:
        self.status = shown.append


class Played:
    """An execution on hosts n1 and n2, and what happens at which time."""

    def __init__(
        self,
        limit: float = 0.0,
        make_input: Callable[[Loop, Transport], InputBroadcast] | None = None,
    ) -> None:
        self.clock = Clock()
        self.hosts = FakeHosts("n1", "n2")
        self.console = Console(self.clock.loop)
        self.execution = Execution(self.clock.loop, self.hosts, self.console, make_input, limit)

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self.clock.now += seconds
            call()

        self.clock.loop.call_later(0.0, due)

    def pass_time(self, seconds: float) -> None:
        """Let time go by, once the execution waits."""
        self.clock.loop.call_later(
            0.0, lambda: setattr(self.clock, "now", self.clock.now + seconds)
        )

    def end_all(self) -> None:
        for host in self.hosts.hosts:
            self.hosts.end(host)

    def run(self) -> dict[str, tuple[int, str]]:
        """Run to the end; return exit code and cause by host."""
        self.execution.run(TRUE)
        self.console.close()
        results = self.execution.results.values()
        return {result.host: (result.exit_code, result.cause) for result in results}


def test_it_ends_with_the_last_host() -> None:
    played = Played()
    played.at(0, lambda: played.hosts.output("n2", b"hello"))
    played.at(0, lambda: played.hosts.end("n2", 3))
    played.at(0, lambda: played.hosts.fail("n1", "connection refused"))
    assert played.run() == {"n1": (69, "connection refused"), "n2": (3, "")}
    assert b"".join(played.execution.results["n2"].outputs[1].blocks()) == b"hello"
    assert played.hosts.said == ["start", "close"]
    assert played.hosts.command == TRUE


def test_a_lost_host_counts_as_such() -> None:
    played = Played()
    played.at(0, lambda: played.hosts.end("n1"))
    played.at(0, lambda: played.hosts.fail("n2", "broken pipe", began=True))
    assert played.run() == {"n1": (0, ""), "n2": (75, "broken pipe")}


def test_a_signal_ends_the_command_where_it_still_runs() -> None:
    played = Played()
    played.at(0, lambda: played.hosts.end("n1"))
    played.at(0, lambda: played.execution.on_signal(signal.SIGINT))
    played.at(0, lambda: played.hosts.end("n2", 143))
    assert played.run() == {"n1": (0, ""), "n2": (130, "stopped by SIGINT")}
    assert played.hosts.said == ["start", "stop", "close"]
    assert played.execution.signal == signal.SIGINT


def test_a_second_signal_does_not_wait() -> None:
    played = Played()
    played.at(0, lambda: played.hosts.end("n1"))
    played.at(0, lambda: played.execution.on_signal(signal.SIGTERM))
    played.at(0, lambda: played.execution.on_signal(signal.SIGINT))
    assert played.run() == {"n1": (0, ""), "n2": (75, UNENDED)}
    assert played.execution.signal == signal.SIGTERM


def test_a_host_that_does_not_answer_a_stop_is_given_up() -> None:
    played = Played()
    played.at(0, lambda: played.execution.stop(StopCause("enough", 1)))
    played.at(0, lambda: played.execution.stop(StopCause("more than enough", 2)))
    played.at(0, lambda: played.hosts.end("n1", 0))
    played.pass_time(STOP)
    assert played.run() == {"n1": (1, "enough"), "n2": (75, UNENDED)}


def test_a_command_has_a_time_limit() -> None:
    played = Played(limit=30.0)
    played.at(0, lambda: played.hosts.end("n1"))
    played.pass_time(30.0)
    played.hosts.stop = lambda: played.hosts.end("n2", 143)  # type: ignore[method-assign]
    assert played.run() == {"n1": (0, ""), "n2": (124, "stopped after --timeout 30 s")}


def test_input_that_cannot_be_read_ends_the_command_and_is_the_error() -> None:
    def blocks() -> Iterator[bytes]:
        yield b"some"
        raise UsageError("--copy x: gone")

    played = Played(make_input=lambda loop, hosts: from_blocks(loop, hosts, blocks()))
    played.hosts.stop = played.end_all  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="gone"):
        played.run()
    assert played.hosts.sent == [b"some"]
    assert played.hosts.said[-1] == "close"


def test_output_that_cannot_be_kept_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST", 10)
    played = Played()
    played.at(0, lambda: played.hosts.output("n1", b"x" * 11))
    played.at(0, lambda: played.hosts.output("n2", b"more"))
    played.at(0, played.end_all)
    why = "its output cannot be stored: more than 10 bytes; --no_fold stores nothing"
    assert played.run() == {"n1": (74, why), "n2": (74, why)}
    assert "stop" in played.hosts.said


def test_hosts_that_are_waited_for_are_named() -> None:
    played = Played()
    shown: list[str] = []
    played.execution.console = Named(shown)  # type: ignore[assignment]
    played.at(0, lambda: played.hosts.end("n1"))
    played.pass_time(STATUS)
    late = STATUS + 0.1
    played.clock.loop.call_later(late, lambda: played.hosts.end("n2"))
    played.at(0, lambda: played.pass_time(STATUS))
    played.execution.run(TRUE)
    played.console.close()
    assert shown == ["dsrun: 1/2 hosts, waiting for n2", ""]


def test_notes_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    played = Played()
    played.at(0, lambda: played.hosts.on_event(HostNote("n1", "new key \x1b[2J")))
    played.at(0, played.end_all)
    played.run()
    assert capfd.readouterr().err == "dsrun: n1: new key \\x1b[2J\n"
