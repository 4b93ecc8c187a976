"""Strangers at the port that node launchers dial: each loses its connection, and that is all."""

from __future__ import annotations

import json
import random
import resource
import socket
import ssl
import struct
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.head.fleet.authentication import Announced, Sharing
from dsrun.launcher.head.fleet.callers import KNOWN, SHAKING, SILENT, Caller, Callers, source_of
from dsrun.launcher.head.fleet.listener import NO_PROOF, Door
from dsrun.launcher.head.fleet.refusals import MOST_SOURCES, Refusals
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from .clock import Clock
from .doors import HERE, Runner, dialled, enter, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["runner"]

CLAIMS = 100_000
CALLERS = 2000
IDLE = 3000

AUTH = messages.pack(frames.AUTH, auth.Claim("w0", "token"))
PLAN = Plan(lay_out([Host(f"n{i}", (0,)) for i in range(4)]), Program("x"), "none", None, None)


# -- what they do to a connection ---------------------------------------------------------------


def reset(connection: socket.socket) -> None:
    """End a connection as a port scan does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def half_close(connection: socket.socket) -> None:
    """Say that there is no more to come, and wait for the other end to close."""
    connection.shutdown(socket.SHUT_WR)
    with suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    connection.close()


class Shaking:
    """A TLS client in memory, so that a connection may end at any byte of what it sends."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), 10)
        self._read, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.client_context().wrap_bio(self._read, self._written)
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self.hello = self._written.read()

    def answered(self) -> bytes:
        """Send the hello, and return what follows it: the end of the handshake and a claim."""
        self.connection.sendall(self.hello)
        while True:
            self._read.write(self.connection.recv(65536))
            with suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
                self._tls.write(AUTH)
                return self._written.read()


# Python's own wrap_socket leaves a socket that was reset to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("end", [reset, half_close, socket.socket.close])
def test_a_connection_may_end_at_every_byte(
    runner: Runner, end: Callable[[socket.socket], None]
) -> None:
    runner.verdict = NO_PROOF
    first = Shaking(runner.door.port)
    second = first.answered()
    end(first.connection)
    for size in range(0, len(first.hello), 1 if end is reset else 17):
        caller = Shaking(runner.door.port)
        caller.connection.sendall(caller.hello[:size])
        end(caller.connection)
    for size in range(0, len(second), 1 if end is reset else 17):
        caller = Shaking(runner.door.port)
        caller.connection.sendall(caller.answered()[:size])
        end(caller.connection)
    runner.verdict = "yes"
    with dialled(runner) as line:
        enter(line)


# -- what they say ------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    *("\ud800", "n1\udcff", "²@n1", "٣@n1", "1@" + "n1," * 80, "9" * 300, "n1\0", "\x1b[2J", ""),
    *("n1", "0@n1", "1@n1,n2", "99@n1", "-1@n1", "1e3@n1", "@", "0@", "x" * 256, "\u202en1"),
    *(None, True, 0, -1, 1 << 63, 1e300, [], ["n1"], {}, {"n1": "n1"}, [[[[]]]]),
)
RAW = (
    *(b"[" * 4000, b'{"node":' * 500, b"\xff\xfe", b"", b"null", b"1", b"NaN", b'"node"'),
    b'{"node": %s, "proof": "x"}' % (b"9" * 4000),
    b'{"node": 1e999, "proof": Infinity}',
    b'{"node": "n1", "proof": "x", "digest": -Infinity}',
    b'{"node": "\xed\xa0\x80", "proof": "x"}',
)


def hostile_claims(chance: random.Random) -> Iterator[bytes]:
    """What somebody may send for an AUTH."""
    names = ("node", "proof", "digest", "host", "node", "self", "\ud800")
    while True:
        fields = {name: chance.choice(ODD) for name in names[: chance.randint(1, 7)]}
        body = json.dumps(fields, ensure_ascii=chance.random() < 0.8)
        yield chance.choice((*RAW, *[body.encode("utf-8", "surrogatepass")] * 30))


def test_every_claim_is_understood_or_refused() -> None:
    chance = random.Random(11)
    announced = Announced(PLAN.nodes, print, print)
    announced.announce("n0", "token")
    sharing = Sharing(PLAN, "secret", "pin", print, pytest.fail)
    verdicts: Counter[str] = Counter()
    for body, _ in zip(hostile_claims(chance), range(CLAIMS), strict=False):
        try:
            claim = messages.unpack(auth.Claim, body)
        except frames.BadFrame:
            verdicts["refused"] += 1
            continue
        verdicts[announced.verify(claim)] += 1
        assert "turned away" in sharing.verify(claim)
    assert set(verdicts) == {"refused", "wait", NO_PROOF}
    assert min(verdicts.values()) > CLAIMS // 100


def test_thousands_of_callers_over_tls(runner: Runner) -> None:
    """Every hundredth is a node; the others are hostile, and stay while they can."""
    bodies, context = hostile_claims(random.Random(12)), tls.client_context()
    with ExitStack() as held:
        for number in range(CALLERS):
            if number % 100 == 99:
                with dialled(runner) as line:
                    enter(line)
            else:
                plain = socket.create_connection(("127.0.0.1", runner.door.port), 10)
                stranger = held.enter_context(context.wrap_socket(plain))
                stranger.sendall(frames.pack(frames.AUTH, next(bodies)))
    assert len(runner.claims) == CALLERS // 100


def test_an_engine_cannot_announce_what_is_no_number() -> None:
    who = Announced(PLAN.nodes, print, print)
    for name in ("²@n1", "٣@n1", "9" * 5000 + "@n1"):
        who.announce(name, "token")
        assert who.verify(auth.Claim(name, "token")) == NO_PROOF


# -- how many they are --------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9"])
def test_a_flood_of_silent_connections_keeps_no_node_out(runner: Runner, source: str) -> None:
    """Neither from elsewhere, nor from where the node comes from, as behind a NAT."""
    with ExitStack() as flood:
        for _ in range(IDLE):
            address = ("127.0.0.1", runner.door.port)
            flood.enter_context(socket.create_connection(address, 10, (source, 0)))
        with dialled(runner) as line:
            enter(line)
    runner.loop.post(runner.refusals.tell)
    assert len(runner.claims) == 1


def caller(source: str, stage: int = SILENT) -> Caller:
    made = Caller(socket.socket(), source)
    made.stage = stage
    return made


def test_the_oldest_silent_caller_of_the_fullest_source_goes_first() -> None:
    crowd = [
        *(caller("one", KNOWN), caller("many", KNOWN), caller("many", SHAKING)),
        *(caller("many"), caller("many"), caller("two"), caller("two"), caller("many", SHAKING)),
    ]
    callers = Callers()
    for one in crowd:
        callers.add(one)
    order = []
    while len(callers):
        order.append(crowd.index(callers.next_to_go()))
        callers.remove(crowd[order[-1]])
        crowd[order[-1]].socket.close()
    assert order == [3, 4, 2, 5, 7, 6, 0, 1]


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("fd00:1:2:3:aaaa::1", "fd00:1:2:3::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_what_counts_as_one_source(address: str, source: str) -> None:
    assert source_of(address) == source


def test_a_process_without_descriptors_waits_for_some() -> None:
    looks: list[float] = []

    def clock() -> float:
        looks.append(time.monotonic())
        return looks[-1]

    context, _ = tls.make_certificate()
    loop = Loop(clock)
    rejected: list[str] = []
    door = Door(loop, context, HERE, 0, str, print, lambda source, _why: rejected.append(source))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(door), socket.create_connection(("127.0.0.1", door.port), 10) as stranger:
        with socket.socket() as free:
            lowest = free.fileno()
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            loop.after(0.05, loop.stop)
            loop.run()
            assert len(looks) < 30, "it looks again and again"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        door_rejects(loop, rejected)
    assert rejected == ["127.0.0.1"]


def door_rejects(loop: Loop, rejected: list[str]) -> None:
    """Run until somebody was rejected."""

    def look() -> None:
        if rejected:
            loop.stop()
        else:
            loop.after(0.001, look)

    look()
    loop.run()


# -- what is told of them -----------------------------------------------------------------------


def test_refusals_are_told_once_a_second() -> None:
    clock, said = Clock(), list[str]()
    refusals = Refusals(clock.loop, said.append)
    assert refusals.summary == ""
    for _ in range(312):
        refusals.add("10.77.0.9", "no proof")
    clock.go(0.5)
    assert said == []
    clock.go(0.5)
    first = "rejected 312 connections from 10.77.0.9 in the last second: no proof"
    assert said == [first]
    clock.go(60)
    for source in ("10.77.0.9", "10.77.0.9", "fd00::/64", "10.0.0.3"):
        refusals.add(source, "node \x1b[2J: turned away")
    refusals.tell()
    refusals.tell()
    more = "rejected 2 connections from 10.77.0.9 and 2 from 2 other addresses in the last second"
    assert said == [first, f"{more}: node \\x1b[2J: turned away"]
    assert refusals.summary == (
        "rejected 314 connections from 10.77.0.9 and 2 from 2 other addresses meanwhile"
    )


def test_sources_without_number_take_no_memory() -> None:
    refusals = Refusals(Clock().loop, print)
    for number in range(3 * MOST_SOURCES):
        refusals.add(f"10.0.{number >> 8}.{number & 255}", f"reason {number}")
    assert len(refusals.counts) == MOST_SOURCES + 1
