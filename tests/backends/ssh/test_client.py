"""Sessions to servers that are not a working sshd: one short line each, when it is time."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

import paramiko
import pytest

from dsrun.launcher import backends
from dsrun.launcher.backends.events import SessionEnded
from dsrun.launcher.backends.ssh import client
from dsrun.launcher.common.loop import Loop
from dsrun.launcher.resources.hostfile import Host
from dsrun.launcher.specs.backend import BackendSettings
from dsrun.launcher.specs.plan import lay_out

from ...support.limits import HANG, NEVER
from ...support.needs import need

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.backends.events import BackendEvent

sessions = pytest.mark.parametrize("launcher", ["ssh", "openssh"])

DEFAULT = 15
"""Seconds that paramiko waits for a server, if it is not told how long."""


@pytest.fixture(autouse=True)
def only_the_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all other limits be longer than a test waits; OpenSSH has none of its own."""
    monkeypatch.setattr(client, "AUTH_TIMEOUT", NEVER)
    for name in ("banner_timeout", "handshake_timeout"):
        monkeypatch.setattr(paramiko.Transport, name, limit(name), raising=False)


def limit(name: str) -> property:
    """Return an attribute for seconds whose default is one that no test waits for."""

    def put(transport: paramiko.Transport, seconds: float) -> None:
        vars(transport)[name] = NEVER if seconds == DEFAULT else seconds

    return property(lambda transport: vars(transport)[name], put)


@contextmanager
def server(greeting: bytes) -> Iterator[int]:
    """The port of a server that sends this to every client, and nothing more."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        callers = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    caller, _ = listener.accept()
                    callers.append(caller)
                    caller.sendall(greeting)

        thread = Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for caller in callers:
                caller.close()


def cause(launcher: str, port: int, patience: float, host: str = "127.0.0.1") -> str:
    """Return why no session can be opened."""
    loop = Loop()
    settings = BackendSettings("python3", "/", port=port, connect_timeout=patience)
    backend = backends.load(launcher, settings)
    causes = []

    def emit(event: BackendEvent) -> None:
        if isinstance(event, SessionEnded):
            causes.append(event.cause)
            loop.stop()

    try:
        backend.start(lay_out([Host(host, (0,))]), loop, emit, None)
        loop.call_later(HANG, loop.stop)
        loop.run()
    finally:
        backend.close()
    (cause,) = causes
    return cause


@sessions
def test_a_mute_server_costs_the_time_to_connect(launcher: str) -> None:
    need("ssh")
    with server(b"") as port:
        told = cause(launcher, port, 1.0)
    assert "did not answer" in told


def test_what_nobody_has_foreseen_is_the_cause_of_the_one_host() -> None:
    told = cause("ssh", 22, 1.0, host="a" * 70)
    assert told.startswith("the ssh session failed: ")
    assert "label" in told
    assert told.isprintable()


@sessions
@pytest.mark.parametrize(
    "greeting",
    [
        b"\0" * 5000,
        bytes(range(256)) * 4,
        b"\x1b]0;title\x07\x9b31m\xe2\x80\xae\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"SSH-1.5-old\r\n",
        b"SSH-\r\n",
        b"SSH-2.0-x\r\n" + b"garbage" * 99,
    ],
    ids=["zeros", "all", "escapes", "http", "ssh1", "empty", "no packet"],
)
def test_garbage_is_one_short_line_of_plain_text(launcher: str, greeting: bytes) -> None:
    need("ssh")
    with server(greeting) as port:
        told = cause(launcher, port, 1.0)
    assert 0 < len(told) < 250
    assert told.isprintable()
