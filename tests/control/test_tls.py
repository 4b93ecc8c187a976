"""Dialling back over TLS: real sockets, the real listener on a loop, real certificates."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest
from cryptography import x509

from dsrun.launcher.control import auth, frames, tls
from dsrun.launcher.head.fleet.rejections import NO_PROOF
from dsrun.launcher.node import main

from ..support.limits import HANG
from ..support.listeners import HERE, TOKEN, Runner, dialled, enter, runner

__all__ = ["runner"]


def test_the_right_pin(runner: Runner) -> None:
    with dialled(runner) as line:
        enter(line)
        line.send(frames.pack(frames.BEAT, b"hello"))
        assert line.wait_for_one(HANG) == (frames.BEAT, b"hello")
        assert runner.admitted == [auth.Credentials("w0", "token")]


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
    line, _ = tls.dial(["127.0.0.3", *HERE], runner.listener.port, runner.pin, HANG)
    line.close()


def test_another_pin(runner: Runner) -> None:
    with pytest.raises(tls.CannotDial) as caught:
        tls.dial(HERE, runner.listener.port, "0" * 64, HANG)
    port = runner.listener.port
    assert str(caught.value) == (
        f"cannot reach the runner at 127.0.0.1:{port}: another program answered there"
        " (its certificate is not the runner's)"
    )
    assert not runner.admitted


def test_no_pin_shows_the_certificate_for_another_proof(runner: Runner) -> None:
    with dialled(runner, pin=""):
        pass


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(tls.CannotDial) as caught:
            tls.dial(["127.0.0.1", "no-such-host.invalid"], port, "x", HANG)
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
            tls.dial(HERE, server.getsockname()[1], "x", HANG)
        greeter.join(HANG)


def test_certificates_are_new_every_time() -> None:
    pins = {tls.make_certificate()[1] for _ in range(3)}
    assert len(pins) == 3
    assert all(len(pin) == 64 for pin in pins)


def test_who_is_dropped_dials_again(runner: Runner) -> None:
    runner.verdict = NO_PROOF
    lines: list[tls.TlsStream] = []

    def dial() -> None:
        where = f"127.0.0.1:{runner.listener.port}"
        lines.append(main.dial(where, runner.pin, auth.Credentials("w0", TOKEN)))

    node = threading.Thread(target=dial)
    node.start()
    assert runner.asked.wait(HANG)
    runner.verdict = True
    node.join(HANG)
    with closing(lines[0]) as line:
        assert line.take_buffered() == [(frames.WELCOME, b"")]


def test_who_is_not_there_is_not_dialled_again() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(tls.CannotDial, match="Connection refused"):
            main.dial(f"127.0.0.1:{free.getsockname()[1]}", "x", auth.Credentials("w0", TOKEN))


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
            tls.dial(HERE, server.getsockname()[1], "x", HANG)
        greeter.join(HANG)
    assert caught.value.dropped is dropped


def test_a_certificate_holds_whatever_a_nodes_clock_says(runner: Runner) -> None:
    plain = socket.create_connection(("127.0.0.1", runner.listener.port), HANG)
    with tls.client_context().wrap_socket(plain) as secure:
        der = secure.getpeercert(binary_form=True) or b""
    assert tls.fingerprint(der) == runner.pin
    certificate, now = x509.load_der_x509_certificate(der), datetime.now(timezone.utc)
    assert certificate.not_valid_before_utc <= now - timedelta(days=364)
    assert certificate.not_valid_after_utc >= now + timedelta(days=3649)


def test_small_frames_are_sent_without_delay(runner: Runner) -> None:
    with dialled(runner) as line, socket.socket(fileno=os.dup(line.write_fd)) as same:
        assert same.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_closed_line_may_be_closed_again(runner: Runner) -> None:
    with dialled(runner) as line:
        line.close()
        assert (line.read_fd, line.write_fd) == (-1, -1)
