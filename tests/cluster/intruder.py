"""A stranger who knows the address of a control port: `intruder.py HOW ADDRESS PORT [NODE TOKEN]`.

Prints `knocked` once its connections stand and it has said its say, and `shut out` once the other
end has closed every one of them without a word; what it is told in between is printed as well.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Connection = socket.socket

AUTH, DONE, HELLO = 32, 39, 33

LIMIT = 120.0
"""Seconds to connect, and to be shut out: what only a hang can reach."""

TRIES = 10


def plain(address: str, port: int) -> Connection:
    """Connect, and no more."""
    return socket.create_connection((address, port), LIMIT)


def secure(address: str, port: int) -> Connection:
    """Connect, and shake hands."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(plain(address, port))


def saying(data: bytes, connect: Callable[[str, int], Connection] = secure) -> Callable[..., None]:
    """A way to intrude: connect and say this."""
    return lambda address, port: listen([said(connect(address, port), data)])


def said(connection: Connection, data: bytes) -> Connection:
    """The connection, after these bytes have been sent over it, as far as they were taken."""
    with suppress(OSError):
        connection.sendall(data)
    return connection


def frame(kind: int, body: bytes, size: int | None = None) -> bytes:
    """A frame of the control line, its length given wrongly if `size` says so."""
    return struct.pack("!BI", kind, len(body) if size is None else size) + body


def claim(node: str, proof: str) -> bytes:
    """The frame that says who dials."""
    return frame(AUTH, json.dumps({"node": node, "proof": proof, "digest": ""}).encode())


def with_token(address: str, port: int, node: str, token: str) -> None:
    """Claim to be a node, with this token."""
    listen([said(secure(address, port), claim(node, token))])


def many(count: int, connect: Callable[[str, int], Connection]) -> Callable[..., None]:
    """A way to intrude: so many connections, and not a word."""
    return lambda address, port: listen([connect(address, port) for _ in range(count)])


def resetting(data: bytes = b"") -> Callable[..., None]:
    """A way to intrude: connect, say this, and reset the connection."""

    def reset(address: str, port: int) -> None:
        for size in range(len(data) + 1):
            connection = said(plain(address, port), data[:size])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        listen([])

    return reset


def hello() -> bytes:
    """The first bytes of a TLS client's."""
    written = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), written, False, "x").do_handshake()
    return written.read()


def listen(connections: list[Connection]) -> None:
    """Read until every connection has ended."""
    print("knocked", flush=True)
    for connection in connections:
        with suppress(ConnectionError, ssl.SSLError):
            while data := connection.recv(65536):
                print("was told", data, flush=True)
        connection.close()
    print("shut out", flush=True)


WAYS: dict[str, Callable[..., None]] = {
    "silence": saying(b"", plain),
    "another protocol": saying(b"GET / HTTP/1.0\r\n\r\n" * 10, plain),
    "silence after the handshake": saying(b""),
    "half a frame": saying(frame(AUTH, b'{"node":', 100)),
    "no token": saying(claim("n1", "")),
    "a wrong token": saying(claim("n1", "x" * 43)),
    "a node that is none": saying(claim("n7", "x" * 43)),
    "another frame first": saying(frame(HELLO, b"{}")),
    "an end": saying(frame(DONE, b'{"left": [], "tails": {}}')),
    "no JSON": saying(frame(AUTH, b"\xff\x00not json")),
    "resets at every byte": resetting(hello()),
    "a name that is no text": saying(claim("\ud800", "")),
    "a digit that is none": saying(claim("\u00b2@n1", "x")),
    "a number of many digits": saying(claim("9" * 3000 + "@n1", "x")),
    "deep JSON": saying(frame(AUTH, b"[" * 4000)),
    "a node of a wrong kind": saying(frame(AUTH, b'{"node": {}, "proof": "", "digest": ""}')),
    "a list of nodes": saying(frame(AUTH, b'{"node": ["n1"], "proof": "", "digest": ""}')),
    "a proof of a wrong kind": saying(frame(AUTH, b'{"node": "n1", "proof": 7, "digest": ""}')),
    "a proof that is no text": saying(claim("n1", "\ud800")),
    "a claim without proof": saying(frame(AUTH, b'{"node": "n1"}')),
    "a claim with more": saying(frame(AUTH, b'{"node": "n1", "proof": "", "self": 1}')),
    "more than one frame": saying(claim("n1", "x") + claim("n2", "x")),
    "a huge frame": saying(frame(AUTH, b"", 10 << 20) + b"x" * 100_000),
    "the largest frame": saying(frame(AUTH, b"", (1 << 32) - 1)),
    "a hundred connections": many(100, plain),
    "a hundred handshakes": many(100, secure),
    "thousands of connections": many(3000, plain),
    "this token": with_token,
}


PATIENT = {
    *("silence", "silence after the handshake", "half a frame", "no token", "a wrong token"),
    *("a hundred connections", "a hundred handshakes", "thousands of connections"),
}
"""Ways that may take the port's whole patience with a caller."""

QUICK = sorted(WAYS.keys() - PATIENT - {"this token"})


def one_after_the_other(address: str, port: int) -> None:
    """Go all ways that take no time: shut out before somebody who was there first, and is silent.

    Whoever gets no CPU for as long as the port's patience cannot tell, and tries again.
    """
    for way in QUICK:
        if not any(is_before_the_silent(way, address, port) for _ in range(TRIES)):
            print("was shut out late:", way, flush=True)


def is_before_the_silent(way: str, address: str, port: int) -> bool:
    """Go this way, and tell whether somebody is still there who came first and has said nothing."""
    with plain(address, port) as silent:
        WAYS[way](address, port)
        look = select.poll()
        look.register(silent, select.POLLIN)
        return not look.poll(0)


WAYS["one way after the other"] = one_after_the_other


if __name__ == "__main__":
    how, where, number, *rest = sys.argv[1:]
    WAYS[how](where, int(number), *rest)
