"""What the kernel counts of TCP connections: real ones, to this machine's own address."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control import field_types
from dsrun.launcher.control.activity_messages import LinkActivity
from dsrun.launcher.node import links

from ..support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


PORTS = 4
"""Where both ports are in `struct inet_diag_msg`."""


def own_address() -> str:
    """An address of this machine that is not of its loopback device."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            one.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        return str(one.getsockname()[0])


def to(peer: str) -> LinkActivity | None:
    return next((one for one in links.links() if one.peer == peer), None)


def test_bytes_to_another_address_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    here, size = own_address(), 300_000
    with socket.create_server((here, 0)) as server, socket.socket() as ours:
        ask, port = links._ask, server.getsockname()[1]

        def asked(family: int) -> Iterator[bytes]:
            """Leave out the connections of others, which come and go."""
            return (one for one in ask(family) if port in struct.unpack_from("!HH", one, PORTS))

        monkeypatch.setattr(links, "_ask", asked)
        assert to(here) is None
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
        with theirs:
            ours.sendall(b"x" * size)
            got = 0
            while got < size:
                got += len(theirs.recv(size))
            wait_for(lambda: (one := to(here)) and one.sent >= size, "the last acknowledgement")
            after = to(here)
    assert after is not None
    assert after.sent - size in {0, 1, 2}, "the kernel may count the starts of both directions"
    assert 0 <= after.busy < 60
    assert 0 < after.rtt < 60
    assert field_types.row(LinkActivity)(list(after))


def test_what_stays_on_this_machine_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        ours.connect(server.getsockname())
        assert to("127.0.0.1") is None


def made(family: int, peer: bytes, uid: int, sent: int) -> bytes:
    """A message of the kernel about one connection."""
    info = bytearray(232)
    struct.pack_into("=I", info, 68, 2000)
    struct.pack_into("=I", info, 100, 3)
    struct.pack_into("=Q", info, 120, sent)
    struct.pack_into("=QQ", info, 168, 1_500_000, 500_000)
    head = bytes([family, 1, 0, 0]).ljust(24, b"\0") + peer.ljust(16, b"\0") + bytes(24)
    socket_part = bytearray(head.ljust(72, b"\0"))
    struct.pack_into("=I", socket_part, 64, uid)
    other = struct.pack("=HHI", 6, 5, 0)  # a byte, and three to align the next one
    return bytes(socket_part) + other + struct.pack("=HH", 4 + len(info), 2) + info


def test_connections_to_one_machine_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    monkeypatch.setattr(os, "getuid", lambda: 7)
    answers = {
        four: [
            made(four, bytes([10, 0, 0, 2]), 7, 100),
            made(four, bytes([10, 0, 0, 3]), 7, 5000),
            made(four, bytes([10, 0, 0, 4]), 8, 100),
            made(four, bytes([127, 0, 0, 1]), 7, 100),
        ],
        six: [
            made(six, bytes(10) + b"\xff\xff\x0a\0\0\2", 7, 11),
            made(six, bytes(15) + b"\1", 7, 11),
        ],
    }
    monkeypatch.setattr(links, "_ask", answers.__getitem__)
    assert links.links() == (
        LinkActivity("10.0.0.3", 5000, 1.0, 3, 0.002),
        LinkActivity("10.0.0.2", 111, 2.0, 6, 0.002),
    )


def test_a_kernel_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    four = socket.AF_INET
    monkeypatch.setattr(os, "getuid", lambda: 7)
    monkeypatch.setattr(links, "_ask", lambda _family: [made(four, b"\x0a\0\0\2", 7, 1)[:150]])
    assert links.links() == ()
