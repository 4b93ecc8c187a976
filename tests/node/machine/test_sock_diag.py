"""What the kernel tells of TCP sockets: real ones of this process."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine.sock_diag import ESTABLISHED, LISTENING, tcp_sockets

if TYPE_CHECKING:
    from dsrun.launcher.node.machine.sock_diag import TcpSocket


def found(one: socket.socket, states: int) -> TcpSocket | None:
    inode = os.fstat(one.fileno()).st_ino
    return next((row for row in tcp_sockets(one.family, states) if row.inode == inode), None)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_sockets_are_told_by_state_with_both_ports(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        listening = found(server, LISTENING)
        assert listening is not None
        assert (listening.port, listening.uid) == (server.getsockname()[1], os.getuid())
        assert found(server, ESTABLISHED) is None
        with socket.create_connection(server.getsockname()[:2]) as ours:
            connection = found(ours, ESTABLISHED)
            assert connection is not None
            own, other = ours.getsockname()[1], server.getsockname()[1]
            assert (connection.port, connection.peer_port) == (own, other)
            assert connection.peer == socket.inet_pton(family, address)
            assert len(connection.info) > 136
