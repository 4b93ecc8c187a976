"""Nodes that try each other: who answers, and that whatever a caller does hurts nobody else."""

from __future__ import annotations

import json
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, messages
from dsrun.launcher.control.reach_messages import Dial, Network, Reach
from dsrun.launcher.features.quick_check import node_reach as reach
from dsrun.launcher.features.quick_check.node_reach import HALF, MOST_CALLERS, IdentityListener
from dsrun.launcher.features.quick_check.node_reach_service import Reaching
from dsrun.launcher.node.machine import ports

from ...support.leaks import open_files
from ...support.limits import HANG, NEVER
from ...support.played_run import run_until
from ...support.services import service_context
from ...support.silent_port import silent_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Two:
    """Two nodes on one loop, and what they have answered; time may be skipped."""

    def __init__(self) -> None:
        self.before = open_files()
        self.skipped = 0.0
        self.answers: list[tuple[int, list[str]]] = []
        self.loop = Loop(lambda: time.monotonic() + self.skipped)
        context = service_context(self.loop, self._send, base={"GLOO_SOCKET_IFNAME": "lo"})
        self.nodes = [Reaching(context) for _ in range(2)]
        self.networks = [network_of(one) for one in self.nodes]

    def _send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert kind == frames.REACHED
        answer = json.loads(body)
        self.answers.append((answer["id"], answer["verdicts"]))

    def until(self, condition: Callable[[], object]) -> None:
        run_until(self.loop, lambda: bool(condition()), lambda: self.answers)

    @property
    def called(self) -> IdentityListener:
        """The listener of the second node."""
        identity = self.nodes[1]._identity
        assert identity is not None
        return identity

    def ask(self, request: Reach) -> None:
        """Ask the first node."""
        self.nodes[0].receive(messages.pack(frames.REACH, request)[5:])

    def dial(self, *dials: Dial) -> list[str]:
        """Have the first node dial; returns the verdicts."""
        self.answers.clear()
        self.ask(Reach(7, dials, {}))
        self.until(lambda: self.answers)
        ((number, verdicts),) = self.answers
        assert number == 7
        return verdicts

    def call(self, *, node: int = 1) -> socket.socket:
        """Connect to a node as anybody can."""
        one = socket.create_connection(("127.0.0.1", self.networks[node].port), HANG)
        one.settimeout(HANG)
        return one


def network_of(node: Reaching) -> Network:
    """The interfaces in a node's HELLO."""
    network = node.hello_fields().get("network")
    assert network is not None
    return network


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Iterator[Two]:
    monkeypatch.setattr(reach, "SECONDS", NEVER)
    made = Two()
    yield made
    for one in made.nodes:
        one.close()
    made.loop._epoll.close()
    assert len(open_files()) <= len(made.before)


def test_a_node_is_reached_at_each_of_its_addresses(two: Two) -> None:
    _, other = two.networks
    dials = [Dial(address, other.port, other.token) for address in ("127.0.0.1", "127.0.0.2")]
    assert two.dial(*dials) == ["", ""]


def test_what_answers_there_has_to_be_that_node(two: Two) -> None:
    own, other = two.networks
    assert two.dial(Dial("127.0.0.1", own.port, other.token)) == [reach.OTHER], "it was itself"
    with socket.create_server(("127.0.0.1", 0)) as parrot:
        port = parrot.getsockname()[1]
        two.ask(Reach(7, (Dial("127.0.0.1", port, other.token),), {}))
        caller, _ = parrot.accept()
        with caller:
            caller.send(b"?" * HALF)
            two.until(lambda: two.answers)
    assert two.answers == [(7, [reach.OTHER])]


def test_an_address_that_refuses_or_is_none_is_told(two: Two) -> None:
    _, other = two.networks
    with closing(ports.Reservation(0)) as held:
        held.open_to_store()
        refused, none, far = two.dial(
            Dial("127.0.0.1", held.port, other.token),
            Dial("n1", other.port, other.token),
            Dial("255.255.255.255", other.port, other.token),
        )
    assert refused == "connection refused"
    assert "illegal" in none
    assert far


def test_one_that_is_silent_is_given_up(two: Two) -> None:
    _, other = two.networks
    with silent_port() as port:
        dials = (Dial("127.0.0.1", port, "t" * 32), Dial("127.0.0.1", other.port, other.token))
        two.ask(Reach(7, dials, {}))
        two.until(lambda: two.nodes[0]._dials[0]._verdicts[1] == "")
        assert two.answers == []
        two.skipped += reach.SECONDS
        two.until(lambda: two.answers)
    assert two.answers == [(7, [reach.NO_ANSWER, ""])]


def test_callers_who_know_nothing_learn_nothing(two: Two) -> None:
    with two.call() as caller:
        two.until(lambda: two.called._callers)
        caller.send(b"x" * HALF)
        two.until(lambda: not two.called._callers)
        assert caller.recv(64) == b""


def test_a_token_may_come_in_pieces(two: Two) -> None:
    with two.call() as caller:
        token = two.networks[1].token
        caller.send(token[:1].encode())
        two.until(lambda: two.called._callers)
        assert two.dial(Dial("127.0.0.1", two.networks[1].port, token)) == [""]
        caller.send(token[1:HALF].encode())
        two.until(lambda: not two.called._callers)
        assert caller.recv(2 * HALF) == token[HALF:].encode()


def test_callers_who_say_nothing_make_room(two: Two) -> None:
    _, other = two.networks
    callers = [two.call() for _ in range(MOST_CALLERS + 3)]
    identity = two.called
    two.until(lambda: len(identity._callers) == MOST_CALLERS)
    assert two.dial(Dial("127.0.0.1", other.port, other.token)) == [""]
    for one in callers:
        one.close()


def test_a_closed_door_refuses(two: Two) -> None:
    _, other = two.networks
    with two.call():
        two.nodes[1].close()
    assert two.dial(Dial("127.0.0.1", other.port, other.token)) == ["connection refused"]
    two.nodes[1].close()


def test_without_descriptors_the_door_closes(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_self: object) -> None:
        raise OSError(24, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", full)
    with two.call():
        two.until(lambda: two.called._listener.fileno() < 0)


def test_a_request_without_dials_has_no_answer(two: Two) -> None:
    two.ask(Reach(1, (), {"A": "b"}))
    assert two.dial(Dial("127.0.0.1", 9, "t" * 32)) != [""]
