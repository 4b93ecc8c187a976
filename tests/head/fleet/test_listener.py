"""Strangers at the port that node launchers dial: each loses its connection, and that is all."""

from __future__ import annotations

import json
import random
import resource
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.common.poll import ready
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.control.stream import StreamClosed
from dsrun.launcher.head.fleet.authentication import SecretVerifier, TokenVerifier
from dsrun.launcher.head.fleet.callers import PLACES
from dsrun.launcher.head.fleet.listener import PATIENCE, Listener
from dsrun.launcher.head.fleet.rejections import NO_PROOF, Rejected
from dsrun.launcher.specs.host import Host
from dsrun.launcher.specs.plan import Plan, lay_out
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.limits import HANG
from ...support.listeners import HERE, Runner, dialled, enter, identify, runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["runner"]

CLAIMS = 100_000
CALLERS = 2000
IDLE = 3000

AUTH = messages.pack(frames.AUTH, auth.Credentials("w0", "token"))
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


def verdict(who: TokenVerifier | SecretVerifier, credentials: auth.Credentials) -> str:
    """Return what it says to a caller: True, False, or why not."""
    try:
        return str(who.verify(credentials))
    except Rejected as error:
        return str(error)


def test_an_engine_cannot_announce_what_is_no_number() -> None:
    who = TokenVerifier(PLAN.nodes, print, print)
    for name in ("²@n1", "٣@n1", "9" * 5000 + "@n1"):
        who.announce(0, name, "token")
        with pytest.raises(Rejected):
            who.verify(auth.Credentials(name, "token"))


# -- how many they are --------------------------------------------------------------------------


def await_caller(listener: Listener) -> None:
    """Wait until there is somebody to accept; who has connected may not have arrived yet."""
    assert ready([one.fileno() for one in listener._sockets], HANG)


def test_a_process_without_descriptors_waits_for_some() -> None:
    looks: list[float] = []

    def clock() -> float:
        looks.append(time.monotonic())
        return looks[-1]

    context, _ = tls.make_certificate()
    loop = Loop(clock)
    rejected: list[str] = []
    verifier = TokenVerifier(PLAN.nodes, print, print)
    listener = Listener(
        loop, context, HERE, 0, verifier, lambda source, _why: rejected.append(source), print
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(listener), socket.create_connection(("127.0.0.1", listener.port), 10) as stranger:
        with socket.socket() as free:
            lowest = free.fileno()
        await_caller(listener)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
        try:
            loop.call_later(0.05, loop.stop)
            loop.run()
            assert len(looks) < 30, "it looks again and again"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        run_until_rejected(loop, rejected)
    assert rejected == ["127.0.0.1"]


def run_until_rejected(loop: Loop, rejected: list[str]) -> None:
    """Run until somebody was rejected."""

    def look() -> None:
        if rejected:
            loop.stop()
        else:
            loop.call_later(0.001, look)

    look()
    loop.run()


def test_who_waits_enters_when_asked_again(runner: Runner) -> None:
    runner.verdict = False
    with dialled(runner) as line:
        identify(line)
        assert runner.asked.wait(HANG)
        assert not runner.admitted
        runner.verdict = True
        runner.loop.call_soon_threadsafe(lambda: runner.listener.recheck("w0"))
        assert line.wait_for_one(10.0) == (frames.WELCOME, b"")
        assert runner.admitted == [auth.Credentials("w0", "token")]


@pytest.mark.parametrize(
    "first",
    [
        frames.pack(frames.HELLO, b"{}"),
        frames.pack(frames.AUTH, b"not json"),
        frames.pack(frames.AUTH, b'{"node":"w0"}'),
        frames.pack(frames.AUTH, b"x" * (frames.AUTH_LIMIT + 1)),
        messages.pack(frames.AUTH, auth.Credentials("w0", "token")) * 2,
    ],
)
def test_who_does_not_introduce_itself_is_dropped(runner: Runner, first: bytes) -> None:
    with dialled(runner) as line:
        line.send(first)
        assert line.wait_for_one(10.0) is None
        with pytest.raises(StreamClosed):
            line.receive()
    assert not runner.admitted
    assert told(runner) == "rejected 1 connection from 127.0.0.1 in the last second: no proof"


def test_who_leaves_before_it_has_said_who_it_is_has_no_proof(runner: Runner) -> None:
    with dialled(runner):
        pass
    with dialled(runner) as line:
        enter(line)
    assert told(runner) == "rejected 1 connection from 127.0.0.1 in the last second: no proof"


def told(runner: Runner) -> str:
    """Return the line on whoever has been rejected by now."""
    flushed = threading.Event()
    runner.loop.call_soon_threadsafe(runner.rejections.flush)
    runner.loop.call_soon_threadsafe(flushed.set)
    assert flushed.wait(HANG)
    (line,) = runner.told
    return line


def test_who_is_not_believed_is_dropped(runner: Runner) -> None:
    runner.verdict = "no"
    with dialled(runner) as line:
        identify(line)
        assert line.wait_for_one(10.0) is None
    assert not runner.admitted


def test_a_stranger_disturbs_nobody(runner: Runner) -> None:
    with socket.create_connection(("127.0.0.1", runner.listener.port), timeout=HANG) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with dialled(runner) as line:
            enter(line)
        with suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass


def test_a_port_that_is_taken() -> None:
    context, _ = tls.make_certificate()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        verifier = TokenVerifier((), print, print)
        with pytest.raises(OSError, match="Address already in use"):
            Listener(Loop(), context, HERE, port, verifier, print, print)


def test_the_port_is_closed_once_all_are_here(runner: Runner) -> None:
    runner.expected = 2
    with dialled(runner) as line:
        enter(line)
        with dialled(runner) as last:
            enter(last)
            line.send(frames.pack(frames.BEAT, b"still here"))
            assert line.wait_for_one(10.0) == (frames.BEAT, b"still here")
            # The answer comes from the loop after it has closed the port.
            with pytest.raises(tls.CannotDial, match="Connection refused"):
                tls.dial(HERE, runner.listener.port, runner.pin, 10.0)


def test_who_has_not_entered_is_dropped_when_the_port_is_closed(runner: Runner) -> None:
    runner.verdict = False
    with dialled(runner) as line:
        identify(line)
        assert runner.asked.wait(HANG)
        runner.loop.call_soon_threadsafe(runner.listener.close)
        assert line.wait_for_one(10.0) is None
    assert runner.told == [], "nobody was rejected"


def test_a_fault_of_ours_is_the_reason_of_a_rejection(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, unexpected_faults: list[Exception]
) -> None:
    monkeypatch.setattr(runner, "verify", lambda _credentials: 1 // 0 == 0)
    with dialled(runner) as line:
        identify(line)
        assert line.wait_for_one(10.0) is None
    assert "ZeroDivisionError: integer division or modulo by zero" in told(runner)
    [(level, traceback)] = runner.logged
    assert (level, traceback.split("\n")[0]) == ("debug", "Traceback (most recent call last):")
    unexpected_faults.clear()


def test_who_says_nothing_loses_its_connection_in_time() -> None:
    clock, rejected = Clock(), list[tuple[str, str]]()
    context, _ = tls.make_certificate()
    verifier = TokenVerifier(PLAN.nodes, print, print)
    listener = Listener(
        clock.loop,
        context,
        HERE,
        0,
        verifier,
        lambda *told: rejected.append(told),
        print,
    )
    address = ("127.0.0.1", listener.port)
    with closing(listener), socket.create_connection(address, HANG) as silent:
        await_caller(listener)
        clock.go(0.0)
        clock.go(PATIENCE - 0.01)
        assert rejected == []
        clock.go(0.01)
        assert rejected == [("127.0.0.1", NO_PROOF)]
        assert silent.recv(1) == b""


def test_more_callers_than_places_cost_one_its_place() -> None:
    clock, rejected = Clock(), list[str]()
    context, _ = tls.make_certificate()
    verifier = TokenVerifier(PLAN.nodes, print, print)
    listener = Listener(
        clock.loop, context, HERE, 0, verifier, lambda source, _why: rejected.append(source), print
    )
    with closing(listener), ExitStack() as crowd:
        for number in range(PLACES + 1):
            address = ("127.0.0.1", listener.port)
            crowd.enter_context(socket.create_connection(address, HANG))
            await_caller(listener)
            clock.go(0.0)
            assert len(rejected) == max(0, number + 1 - PLACES)


def test_it_listens_at_every_address_at_one_port() -> None:
    context, _ = tls.make_certificate()
    loop = Loop()
    verifier = TokenVerifier(PLAN.nodes, print, print)
    listener = Listener(loop, context, ["127.0.0.1", "127.0.0.3"], 0, verifier, print, print)
    with closing(listener):
        for address in ("127.0.0.1", "127.0.0.3"):
            socket.create_connection((address, listener.port), 10).close()
    for address in ("127.0.0.1", "127.0.0.3"):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((address, listener.port), 10)


# -- many of them: these take longest, so they come last ------------------------------------------


# Python's own wrap_socket leaves a socket that was reset to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("end", [reset, half_close, socket.socket.close])
def test_a_connection_may_end_at_every_byte(
    runner: Runner, end: Callable[[socket.socket], None]
) -> None:
    runner.verdict = NO_PROOF
    first = Shaking(runner.listener.port)
    second = first.answered()
    end(first.connection)
    for size in range(0, len(first.hello), 1 if end is reset else 17):
        caller = Shaking(runner.listener.port)
        caller.connection.sendall(caller.hello[:size])
        end(caller.connection)
    for size in range(0, len(second), 1 if end is reset else 17):
        caller = Shaking(runner.listener.port)
        caller.connection.sendall(caller.answered()[:size])
        end(caller.connection)
    runner.verdict = True
    with dialled(runner) as line:
        enter(line)


def test_every_claim_is_understood_or_refused() -> None:
    chance = random.Random(11)
    announced = TokenVerifier(PLAN.nodes, print, print)
    announced.announce(2, "n2", "token")
    sharing = SecretVerifier(PLAN, "secret", "pin", print, pytest.fail)
    verdicts: Counter[str] = Counter()
    for body, _ in zip(hostile_claims(chance), range(CLAIMS), strict=False):
        try:
            credentials = messages.unpack(auth.Credentials, body)
        except frames.BadFrame:
            verdicts["refused"] += 1
            continue
        assert "its DSRUN_TOKEN differs" in verdict(sharing, credentials)
        verdicts[verdict(announced, credentials)] += 1
    assert set(verdicts) == {"refused", "False", NO_PROOF}
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
                plain = socket.create_connection(("127.0.0.1", runner.listener.port), 10)
                stranger = held.enter_context(context.wrap_socket(plain))
                stranger.sendall(frames.pack(frames.AUTH, next(bodies)))
    assert len(runner.admitted) == CALLERS // 100


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.9"])
def test_a_flood_of_silent_connections_keeps_no_node_out(runner: Runner, source: str) -> None:
    """Neither from elsewhere, nor from where the node comes from, as behind a NAT."""
    with ExitStack() as flood:
        for _ in range(IDLE):
            address = ("127.0.0.1", runner.listener.port)
            flood.enter_context(socket.create_connection(address, 10, (source, 0)))
        with dialled(runner) as line:
            enter(line)
    runner.loop.call_soon_threadsafe(runner.rejections.flush)
    assert len(runner.admitted) == 1
