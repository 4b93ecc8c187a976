"""Histories of PROBEs: which addresses answer, in which order, and that nothing waits for them."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.messages import Probe
from dsrun.launcher.features.quick_check import node_probes as probes
from dsrun.launcher.features.quick_check.node_probe_service import Probes
from dsrun.launcher.node.machine import ports, processes

from ...support.fake_nodes import NAMES
from ...support.leaks import open_files
from ...support.limits import NEVER
from ...support.played_run import run_until
from ...support.services import service_context
from ...support.silent_port import silent_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("adopting")


INVALID = "no-such-host.invalid"
HANGS = "name-service-hangs"


class Played:
    """The probes of a node, and what was answered; time is real, but that some may be skipped."""

    def __init__(self) -> None:
        self.before = open_files()
        self.skipped = 0.0
        self.answers: list[list[str]] = []
        self.loop = Loop(lambda: time.monotonic() + self.skipped)
        self.probes = Probes(service_context(self.loop, self._send))

    def _send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert NAMES[kind] == "PROBED"
        self.answers.append(json.loads(body)["verdicts"])

    def until(self, condition: Callable[[], bool]) -> None:
        """Run the loop until this holds."""
        run_until(self.loop, condition, lambda: self.answers)

    def skip(self, seconds: float) -> None:
        """Let so much time pass."""
        self.skipped += seconds
        self.loop.call_later(0.0, self.loop.stop)
        self.loop.run()

    def begin(self, *candidates: str, port: int) -> None:
        self.probes.receive(messages.pack(frames.PROBE, Probe(candidates, port))[5:])


@pytest.fixture
def played() -> Iterator[Played]:
    one = Played()
    yield one
    one.probes.close()
    one.loop._epoll.close()
    assert open_files() == one.before


@pytest.fixture
def held() -> Iterator[int]:
    """A port that answers."""
    one = ports.Reservation(0)
    yield one.port
    one.close()


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name service that knows one name not, and hangs at another; children have it as well."""
    ask = socket.getaddrinfo

    def asked(host: Any, *more: Any, **options: Any) -> Any:
        if host == INVALID:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if host == HANGS and not options.get("flags"):
            time.sleep(NEVER)
        return ask(host, *more, **options)

    monkeypatch.setattr(socket, "getaddrinfo", asked)
    monkeypatch.setattr(probes, "SECONDS", NEVER)


def test_addresses_are_tried_all_at_once(played: Played, held: int) -> None:
    played.begin("127.0.0.1", "localhost", INVALID, "127.0.0.2", "a" * 70, port=held)
    played.until(lambda: bool(played.answers))
    ((one, name, invalid, two, long),) = played.answers
    assert (one, name, two) == ("", "", "")
    assert invalid.startswith("does not resolve (")
    assert long == "does not resolve (not a valid host name)"
    assert list(played.probes.pids) == processes.children() == []


def test_an_address_that_refuses(played: Played) -> None:
    closed = ports.Reservation(0)
    closed.open_to_store()
    played.begin("127.0.0.1", port=closed.port)
    played.until(lambda: bool(played.answers))
    assert played.answers == [["connection refused"]]
    closed.close()


def test_no_address_at_all(played: Played) -> None:
    played.begin(port=1)
    assert played.answers == [[]]


def test_an_address_that_does_not_answer_is_given_up(played: Played) -> None:
    with silent_port() as port:
        played.begin("127.0.0.1", port=port)
        played.skip(probes.SECONDS / 2)
        assert played.answers == []
        played.skip(probes.SECONDS / 2)
        assert played.answers == [["no answer"]]


def test_a_name_service_that_hangs_costs_its_name_alone(played: Played, held: int) -> None:
    played.begin(HANGS, "127.0.0.1", port=held)
    (pid,) = played.probes.pids
    assert processes.children() == [pid]
    played.until(lambda: played.probes._probes[0].verdicts[1] == "")
    assert played.answers == []
    played.skip(probes.SECONDS)
    assert played.answers == [[probes.UNRESOLVED, ""]]
    assert processes.children() == []


def test_answers_come_in_the_order_of_the_probes(played: Played, held: int) -> None:
    """The runner does not say which one an answer is for."""
    played.begin(HANGS, port=held)
    played.begin("127.0.0.1", port=held)
    played.until(lambda: played.probes._probes[1].done)
    assert played.answers == []
    played.skip(probes.SECONDS)
    assert played.answers == [[probes.UNRESOLVED], [""]]


def test_what_is_closed_is_answered_no_more(played: Played, held: int) -> None:
    with silent_port() as port:
        played.begin(HANGS, "127.0.0.1", port=port)
        played.begin("127.0.0.1", port=held)
        played.probes.close()
        assert (list(played.probes.pids), processes.children()) == ([], [])
        played.skip(2 * probes.SECONDS)
    assert played.answers == []


def test_a_child_that_is_killed_has_resolved_nothing(played: Played, held: int) -> None:
    played.begin(HANGS, "127.0.0.1", port=held)
    os.kill(played.probes.pids[0], signal.SIGKILL)
    played.until(lambda: bool(played.answers))
    assert played.answers == [["does not resolve (the lookup was killed)", ""]]


def test_without_processes_names_are_not_resolved(
    played: Played, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", none)
    played.begin("localhost", "127.0.0.1", port=held)
    played.until(lambda: bool(played.answers))
    assert played.answers == [["does not resolve (resource temporarily unavailable)", ""]]
