"""What the kernel counts of TCP connections: real ones, to this machine's own address."""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.control.activity_messages import LinkActivity
from dsrun.launcher.features.elastic import node_links as links
from dsrun.launcher.node.machine.sock_diag import TcpSocket, tcp_sockets
from dsrun.launcher.specs.field_types import reader

from ...support.limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        port = server.getsockname()[1]

        def of_ours(family: int, states: int) -> Iterator[TcpSocket]:
            """Leave out the connections of others, which come and go."""
            return (one for one in tcp_sockets(family, states) if port in (one.port, one.peer_port))

        monkeypatch.setattr(links, "tcp_sockets", of_ours)
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
    assert reader("tuple[LinkActivity, ...]")([list(after)]) == (after,)


def test_what_stays_on_this_machine_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as ours:
        ours.connect(server.getsockname())
        assert to("127.0.0.1") is None


def made(peer: bytes, uid: int, sent: int) -> TcpSocket:
    """A connection as the kernel tells of it."""
    info = bytearray(232)
    struct.pack_into("=I", info, 68, 2000)
    struct.pack_into("=I", info, 100, 3)
    struct.pack_into("=Q", info, 120, sent)
    struct.pack_into("=QQ", info, 168, 1_500_000, 500_000)
    return TcpSocket(4000, 5000, peer, uid, 1, bytes(info))


def test_connections_to_one_machine_are_summed(monkeypatch: pytest.MonkeyPatch) -> None:
    four, six = socket.AF_INET, socket.AF_INET6
    monkeypatch.setattr(os, "getuid", lambda: 7)
    answers = {
        four: [
            made(bytes([10, 0, 0, 2]), 7, 100),
            made(bytes([10, 0, 0, 3]), 7, 5000),
            made(bytes([10, 0, 0, 4]), 8, 100),
            made(bytes([127, 0, 0, 1]), 7, 100),
        ],
        six: [
            made(bytes(10) + b"\xff\xff\x0a\0\0\2", 7, 11),
            made(bytes(15) + b"\1", 7, 11),
        ],
    }
    monkeypatch.setattr(links, "tcp_sockets", lambda family, _states: answers[family])
    assert links.links() == (
        LinkActivity("10.0.0.3", 5000, 1.0, 3, 0.002),
        LinkActivity("10.0.0.2", 111, 2.0, 6, 0.002),
    )


def test_a_kernel_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 7)
    cut = made(b"\x0a\0\0\2", 7, 1)
    cut = cut._replace(info=cut.info[:100])
    monkeypatch.setattr(links, "tcp_sockets", lambda _family, _states: [cut])
    assert links.links() == ()
