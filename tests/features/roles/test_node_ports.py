"""Who listens on the ports of a role: its own workers, or another user's program."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.role_messages import Ports, PortsAsk
from dsrun.launcher.features.roles.node_ports import RolePorts
from dsrun.launcher.node.machine import ports

from ...support.limits import HANG
from ...support.services import START, group, service_context
from ..diagnosis.test_node_port_watch import DIRECTLY, ELSEWHERE, SOMEBODY, listening, needs_root

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator


class Watched:
    """The ports of a role on a real loop, which stops at what is told."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.told: list[str] = []
        self.asked: list[tuple[str, ...]] = []
        self.runs = True
        self.numbers = {name: free_port() for name in ("http", "grpc")}
        context = service_context(
            self.loop,
            self._answered,
            stop=self._tell,
            role_ports=self.numbers,
            part="server",
            host="n1",
        )
        self.ports = RolePorts(context)
        self.start()

    def start(self) -> None:
        """Start workers, as far as the watch knows."""
        self.ports.started(START, group(running=lambda: self.runs))

    def _tell(self, text: str) -> None:
        self.told.append(text)
        self.loop.stop()

    def _answered(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert kind == frames.PORTS
        self._tell(f"answer {' '.join(self.asked[messages.unpack(Ports, body).id])}")

    def ask(self, *wanted: str) -> None:
        self.asked.append(wanted)
        ask = PortsAsk(len(self.asked) - 1, wanted)
        self.ports.receive(messages.pack(frames.PORTS_ASK, ask)[5:])

    def wait(self) -> None:
        """Run until something is told."""
        late = self.loop.call_later(HANG, self.loop.stop)
        self.loop.run()
        late.cancel()
        assert self.told


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.ports.close()


def free_port() -> int:
    """A port that is free, as those of a role are from START on."""
    held = ports.Reservation(0)
    held.close()
    return held.port


def taken(watched: Watched, name: str, uid: int, user: str = "") -> str:
    return (
        f"port {name} ({watched.numbers[name]}) on n1 was taken by uid {uid}{user} before server"
        " listened there: the next start gets another port"
    )


@needs_root
@pytest.mark.parametrize("name", ["http", "grpc"])
def test_a_stranger_who_listens_first_is_named_though_nobody_asks(
    watched: Watched, name: str
) -> None:
    with listening(ELSEWHERE, SOMEBODY, watched.numbers[name]):
        watched.wait()
    assert watched.told == [taken(watched, name, SOMEBODY)]


@needs_root
@pytest.mark.parametrize("wanted", [(), ("http",), ("grpc",)])
def test_who_asks_gets_no_answer_then(watched: Watched, wanted: Collection[str]) -> None:
    with listening(ELSEWHERE, 65534, watched.numbers["http"]):
        watched.ask(*wanted)
        watched.ask(*wanted)
    assert watched.told == [taken(watched, "http", 65534, " (nobody)")]


@needs_root
def test_a_stranger_beside_our_own_listener_is_one(watched: Watched) -> None:
    """It has another address, at which others may look for the server."""
    number = watched.numbers["http"]
    with socket.create_server(("127.0.0.2", number)), ExitStack() as stack:
        stack.enter_context(beside("127.0.0.3", number))
        watched.ask("http")
    assert watched.told == [taken(watched, "http", SOMEBODY)]


def beside(address: str, port: int) -> socket.socket:
    """A socket of another user; the kernel tells the user who has made it."""
    os.seteuid(SOMEBODY)
    try:
        return socket.create_server((address, port))
    finally:
        os.seteuid(0)


def test_who_asks_is_answered_once_the_role_listens_there(watched: Watched) -> None:
    watched.ask("http")
    watched.ask()
    assert watched.told == ["answer "], "a port that is free is not another user's"
    with socket.create_server(("", watched.numbers["http"])):
        watched.wait()
    assert watched.told[1:] == ["answer http"]


@pytest.mark.parametrize(
    ("how", "uid"),
    [
        pytest.param(DIRECTLY, SOMEBODY, marks=needs_root, id="a worker that is another user"),
        pytest.param(ELSEWHERE, 0, marks=needs_root, id="root, as for a container"),
        pytest.param(ELSEWHERE, os.getuid(), id="what the same user runs elsewhere"),
    ],
)
def test_our_own_listener_is_no_stranger(watched: Watched, how: str, uid: int) -> None:
    with listening(how, uid, watched.numbers["http"]):
        watched.ask("http")
    assert watched.told == ["answer http"]


def test_a_server_over_ipv6_listens_as_well(watched: Watched) -> None:
    try:
        server = socket.create_server(("::1", watched.numbers["grpc"]), family=socket.AF_INET6)
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        watched.ask("grpc")
    assert watched.told == ["answer grpc"]


@needs_root
def test_each_start_is_watched_anew(watched: Watched) -> None:
    with ExitStack() as servers:
        for number in watched.numbers.values():
            servers.enter_context(socket.create_server(("", number)))
        watched.ask("http", "grpc")
    with listening(ELSEWHERE, SOMEBODY, watched.numbers["grpc"]):
        watched.start()
    assert watched.told == ["answer http grpc", taken(watched, "grpc", SOMEBODY)]


@needs_root
def test_nobody_looks_once_the_workers_have_ended(watched: Watched) -> None:
    watched.runs = False
    with listening(ELSEWHERE, SOMEBODY, watched.numbers["http"]):
        watched.ask()
        watched.start()
    assert watched.told == []


def test_a_machine_that_does_not_tell_is_trusted(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ports, "_TABLES", ("/nowhere",))
    watched.ask("http")
    assert watched.told == ["answer http"]
