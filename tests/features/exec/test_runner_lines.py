"""Lines of hosts as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsrun.launcher.features.exec.runner_lines import WINDOW, HostLines
from dsrun.launcher.head.output.console import Console

from ...support.clock import Clock
from ...support.fake_hosts import FakeHosts

if TYPE_CHECKING:
    import pytest


class SlowConsole:
    """A console that tells what it has written when the test says so."""

    def __init__(self) -> None:
        self.labels: list[str] = []
        self.written: list[object] = []

    def label(self, *arguments: object) -> None:
        self.labels.append(str(arguments[1]))

    def feed(self, *arguments: object) -> None:
        self.written.append(arguments[3])


def test_every_line_has_its_host(capfd: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    console = Console(clock.loop)
    lines = HostLines(console, FakeHosts("n1", "n2"))
    lines.receivers["n2", 1].add(b"one\ntw")
    lines.receivers["n1", 2].add(b"bad\n")
    lines.receivers["n2", 1].add(b"o\nrest")
    console.close()
    assert capfd.readouterr() == ("n2| one\nn2| two\nn2| rest\n", "n1| bad\n")


def test_hosts_wait_for_a_slow_reader() -> None:
    hosts, console = FakeHosts("n1"), SlowConsole()
    lines = HostLines(console, hosts)  # type: ignore[arg-type]
    assert console.labels == ["n1| "]
    lines.receivers["n1", 1].add(b"x" * WINDOW)
    assert hosts.said == []
    lines.receivers["n1", 1].add(b"x")
    assert hosts.said == ["pause"]
    for written in console.written:
        written()  # type: ignore[operator]
    assert hosts.said == ["pause", "continue"]
