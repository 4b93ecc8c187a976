"""Dialling back over TLS: real sockets, the real door on a loop, real certificates."""

from __future__ import annotations

import socket
import threading
from contextlib import closing, suppress

import pytest

from dsrun.launcher import launch
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.common.network import addresses_towards, own_addresses
from dsrun.launcher.control import auth, frames, messages, tls
from dsrun.launcher.control.line import LineClosed
from dsrun.launcher.head.fleet.listener import NO_PROOF, Door

from .doors import HERE, TOKEN, Runner, claim, dialled, enter, runner

__all__ = ["runner"]


def test_the_right_pin(runner: Runner) -> None:
    with dialled(runner) as line:
        enter(line)
        line.send(frames.pack(frames.BEAT, b"hello"))
        assert line.wait_for_one(10.0) == (frames.BEAT, b"hello")
        assert runner.claims == [auth.Claim("w0", "token")]


def test_a_frame_larger_than_any_buffer_goes_both_ways(runner: Runner) -> None:
    body = bytes(range(256)) * 16384
    with dialled(runner) as line:
        enter(line)
        line.send(frames.pack(2, body))
        got = None
        while got is None:
            line.flush()
            got = line.wait_for_one(0.01)
        assert got == (2, body)


def test_the_first_address_that_answers_is_taken(runner: Runner) -> None:
    line, _ = tls.dial(["127.0.0.3", *HERE], runner.door.port, runner.pin, 10.0)
    line.close()


def test_another_pin(runner: Runner) -> None:
    with pytest.raises(tls.CannotDial) as caught:
        tls.dial(HERE, runner.door.port, "0" * 64, 10.0)
    assert str(caught.value) == (
        f"cannot reach the runner at 127.0.0.1:{runner.door.port}: another program answered there"
        " (its certificate is not the runner's)"
    )
    assert not runner.claims


def test_no_pin_shows_the_certificate_for_another_proof(runner: Runner) -> None:
    with dialled(runner, pin=""):
        pass


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(tls.CannotDial) as caught:
            tls.dial(["127.0.0.1", "no-such-host.invalid"], port, "x", 10.0)
    assert str(caught.value).startswith(
        f"cannot reach the runner at 127.0.0.1:{port}: Connection refused;"
        f" no-such-host.invalid:{port}: "
    )


def test_somebody_who_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(tls.CannotDial, match=rf"{port}: .*timed out$"):
            tls.dial(HERE, port, "x", 0.1)


def test_somebody_who_speaks_something_else() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            caller, _ = server.accept()
            with caller:
                caller.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                caller.recv(4096)

        greeter = threading.Thread(target=greet)
        greeter.start()
        with pytest.raises(tls.CannotDial, match=r"^cannot reach the runner at 127\.0\.0\.1:"):
            tls.dial(HERE, server.getsockname()[1], "x", 10.0)
        greeter.join(10)


def test_who_waits_enters_when_asked_again(runner: Runner) -> None:
    runner.verdict = "wait"
    with dialled(runner) as line:
        claim(line)
        assert runner.asked.wait(10)
        assert not runner.claims
        runner.verdict = "yes"
        runner.loop.post(lambda: runner.door.recheck("w0"))
        assert line.wait_for_one(10.0) == (frames.WELCOME, b"")
        assert runner.claims == [auth.Claim("w0", "token")]


@pytest.mark.parametrize(
    "first",
    [
        frames.pack(frames.HELLO, b"{}"),
        frames.pack(frames.AUTH, b"not json"),
        frames.pack(frames.AUTH, b'{"node":"w0"}'),
        frames.pack(frames.AUTH, b"x" * (frames.AUTH_LIMIT + 1)),
        messages.pack(frames.AUTH, auth.Claim("w0", "token")) * 2,
    ],
)
def test_who_does_not_introduce_itself_is_dropped(runner: Runner, first: bytes) -> None:
    with dialled(runner) as line:
        line.send(first)
        assert line.wait_for_one(10.0) is None
        with pytest.raises(LineClosed):
            line.receive()
    assert not runner.claims


def test_who_is_not_believed_is_dropped(runner: Runner) -> None:
    runner.verdict = "no"
    with dialled(runner) as line:
        claim(line)
        assert line.wait_for_one(10.0) is None
    assert not runner.claims


def test_a_stranger_at_the_door_disturbs_nobody(runner: Runner) -> None:
    with socket.create_connection(("127.0.0.1", runner.door.port), timeout=10) as stranger:
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
        with pytest.raises(OSError, match="Address already in use"):
            Door(Loop(), context, HERE, port, str, print, print)


def test_certificates_are_new_every_time() -> None:
    pins = {tls.make_certificate()[1] for _ in range(3)}
    assert len(pins) == 3
    assert all(len(pin) == 64 for pin in pins)


def test_the_address_towards_a_host_comes_first() -> None:
    found = addresses_towards(["127.0.0.1", "no-such-host.invalid", "::1"])
    assert found[0] == "127.0.0.1"
    assert found[-len(own_addresses()) :] == own_addresses()
    assert addresses_towards(["no-such-host.invalid"]) == own_addresses()
    assert not [one for one in own_addresses() if one.startswith(("127.", "::1", "fe80"))]


def test_who_is_dropped_dials_again(runner: Runner) -> None:
    runner.verdict = NO_PROOF
    lines: list[tls.TlsLine] = []

    def dial() -> None:
        where = f"127.0.0.1:{runner.door.port}"
        lines.append(launch.dial(where, runner.pin, auth.Claim("w0", TOKEN)))

    node = threading.Thread(target=dial)
    node.start()
    assert runner.asked.wait(10)
    runner.verdict = "yes"
    node.join(20)
    with closing(lines[0]) as line:
        assert line.early() == [(frames.WELCOME, b"")]


def test_who_is_not_there_is_not_dialled_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(tls.CannotDial, match="Connection refused"):
            launch.dial(f"127.0.0.1:{free.getsockname()[1]}", "x", auth.Claim("w0", TOKEN))


@pytest.mark.parametrize(("spoken", "dropped"), [(b"", True), (b"SSH-2.0-OpenSSH_9.2\r\n", False)])
def test_what_a_crowd_does_is_told_from_another_program(spoken: bytes, dropped: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(4096)
                caller.sendall(spoken)

        greeter = threading.Thread(target=greet)
        greeter.start()
        with pytest.raises(tls.CannotDial) as caught:
            tls.dial(HERE, server.getsockname()[1], "x", 10.0)
        greeter.join(10)
    assert caught.value.dropped is dropped
