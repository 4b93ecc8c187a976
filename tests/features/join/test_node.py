"""A node that joins node 0 by dialling it: accepted, or rejected with a reason."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.common.errors import LostError, NodeError, UsageError
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import frames, tls
from dsrun.launcher.features.join import node as joining
from dsrun.launcher.head.fleet.authentication import SecretVerifier
from dsrun.launcher.head.fleet.listener import Listener
from dsrun.launcher.node.machine import ports
from dsrun.launcher.specs.backend import DialIn
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from ...support.limits import HANG

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.control import auth
    from dsrun.launcher.control.stream import FrameStream

SECRET = "open sesame"


def plan(*names: str) -> Plan:
    """Return a plan of some hosts."""
    nodes = lay_out([Host(name, (0,)) for name in names])
    return Plan(nodes, Program("x.py"), "none", None, None)


PLAN = plan("127.0.0.1", "b", "c")


def _ignore(*_words: object) -> None:
    """Print nothing: the standard output of a test may be closed while the thread still runs."""


class First:
    """Node 0, on its own loop in a thread.

    Attributes:
        admitted: the ranks that have entered.
    """

    def __init__(self, secret: str, of: Plan = PLAN, port: int = 0) -> None:
        context, pin = tls.make_certificate()
        self._loop = Loop()
        self._loop.open_to_threads()
        self._lines: list[FrameStream] = []
        self.admitted: list[int] = []
        self._news = threading.Condition()
        verifier = SecretVerifier(of, secret, pin, self._admit, _ignore)
        listening = context, ["127.0.0.1"], port, verifier, _ignore, _ignore
        self._listener = Listener(self._loop, *listening)
        self.port = self._listener.port
        self._thread = threading.Thread(target=self._loop.run)
        self._thread.start()

    def _admit(self, rank: int, line: FrameStream) -> None:
        self._lines.append(line)
        with self._news:
            self.admitted.append(rank)
            self._news.notify()

    def wait_for_one(self) -> list[int]:
        """Wait for a node to join; return the ranks that have joined."""
        with self._news:
            assert self._news.wait_for(lambda: self.admitted, HANG)
            return self.admitted

    def close(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(HANG)
        assert not self._thread.is_alive()

    def _end(self) -> None:
        self._listener.close()
        for line in self._lines:
            line.close()
        self._loop.stop()


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSRUN_TOKEN", SECRET)
    monkeypatch.setattr(joining, "RETRY_INTERVAL", 0.01)


@pytest.fixture
def first() -> Iterator[First]:
    with closing(First(SECRET)) as one:
        yield one


@pytest.fixture
def port() -> Iterator[int]:
    """A port on which no program listens, and that is given to no other."""
    with closing(ports.Reservation(0)) as held:
        held.open_to_store()
        yield held.port


def join(port: int, rank: int = 1, timeout: float = HANG, address: str = "127.0.0.1") -> None:
    """Join as a node, and leave immediately."""
    line = joining.join(PLAN, DialIn(port, address, rank), timeout)
    line.close()


def test_a_node_that_knows_the_secret_is_in(
    first: First, capfd: pytest.CaptureFixture[str]
) -> None:
    join(first.port, 2)
    assert first.wait_for_one() == [2]
    assert capfd.readouterr().err == ("dsrun: node 2 of 3 has joined; 127.0.0.1 shows all output\n")
    assert "DSRUN_TOKEN" not in os.environ


def test_another_secret_is_turned_away(
    first: First, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DSRUN_TOKEN", "another")
    with pytest.raises(LostError, match="rejected this node: its DSRUN_TOKEN differs"):
        join(first.port)
    assert first.admitted == []
    assert "joined" not in capfd.readouterr().err


def test_node_0_says_why_a_node_cannot_take_part() -> None:
    with closing(First(SECRET, plan("127.0.0.1", "b", "x"))) as other:
        with pytest.raises(NodeError, match=r"rejected this node: node 1 .*another command line"):
            join(other.port)
        assert other.admitted == []


def test_who_does_not_prove_the_secret_is_not_node_0(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SecretVerifier.admit

    def forge(one: SecretVerifier, credentials: auth.Credentials, line: tls.TlsStream) -> None:
        line.send(frames.pack(frames.WELCOME, b"x" * 64))
        real(one, credentials, line)

    monkeypatch.setattr(SecretVerifier, "admit", forge)
    with (
        closing(First(SECRET)) as pretender,
        pytest.raises(
            UsageError, match=r"does not know the secret \(DSRUN_TOKEN\); check --master_addr"
        ),
    ):
        join(pretender.port)


def test_a_node_is_not_where_node_0_is_to_be() -> None:
    name = os.uname().nodename
    with pytest.raises(UsageError) as caught:
        join(1, 2, address=name)
    assert str(caught.value) == (
        f"--node_rank 2: this machine is {name}, which is node 0;"
        " give every node a different rank, 0 to 2"
    )


@pytest.mark.parametrize("address", ["localhost", "127.0.0.5", "::1"])
def test_a_loopback_may_be_a_tunnel_to_node_0(port: int, address: str) -> None:
    with pytest.raises(LostError, match="cannot reach the runner at "):
        join(port, 1, timeout=0.0, address=address)


def test_a_node_waits_for_node_0_and_says_so_once(
    port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(joining, "NOTE_AFTER", 0.0)
    started = list[First]()
    turns = iter(range(99))

    def sleep(seconds: float) -> None:
        assert seconds == joining.RETRY_INTERVAL
        if next(turns) == 3:
            started.append(First(SECRET, port=port))

    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", sleep)
        join(port)
    started[0].close()
    assert started[0].wait_for_one() == [1]
    told = capfd.readouterr().err
    assert told.startswith(f"dsrun: waiting for node 0 at 127.0.0.1:{port}\ndsrun: node 1 of 3")


def test_a_short_wait_is_not_worth_a_line(
    port: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(joining, "NOTE_AFTER", HANG)
    with pytest.raises(LostError, match="is dsrun running on node 0"):
        join(port, timeout=0.05)
    assert capfd.readouterr().err == ""
