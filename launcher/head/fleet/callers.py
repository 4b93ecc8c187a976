"""Who has dialled and not proved anything yet; who gives up his place when all are taken. Pure.

Whoever can reach the port can connect to it, so places run out. Then the source that holds most of
them loses one: first of its callers that have said nothing, the oldest first, then of those that
are in the midst of the handshake, then of those whose token has not come yet. A node launcher
speaks at once, so neither a flood of silent connections from its own source (a NAT, a pod network)
nor any from elsewhere takes its place; one that loses it all the same dials again.
"""

from __future__ import annotations

import socket
from enum import IntEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...common.loop import Timer
    from ...control import auth
    from ...control.tls import TlsStream

PLACES = 512
"""Callers served before they have proved themselves."""


class Stage(IntEnum):
    """How far a caller has come."""

    SILENT = 0
    """Nothing that it has sent was understood yet."""
    HANDSHAKE = 1
    """A TLS hello has come."""
    IDENTIFIED = 2
    """It has said who it is."""


_MAPPED = bytes(10) + b"\xff\xff"
"""IPv4 on a socket for both (RFC 4291, 2.5.5.2)."""


class Caller:
    """Somebody who has dialled.

    Attributes:
        source: where from, as `source_of` has it.
        stage: how far it has come.
        line: once the handshake is done.
        credentials: once it has said who it is.
    """

    def __init__(self, connection: socket.socket, source: str) -> None:
        self.socket = connection
        self.fd = connection.fileno()
        self.source = source
        self.stage = Stage.SILENT
        self.line: TlsStream | None = None
        self.credentials: auth.Credentials | None = None
        self.timer: Timer | None = None


class Callers:
    """All who have dialled and not proved anything yet, by source, the oldest first."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[int, Caller]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._sources.values()))

    def __contains__(self, caller: Caller) -> bool:
        return self._sources.get(caller.source, {}).get(caller.fd) is caller

    def add(self, caller: Caller) -> None:
        """Add one."""
        self._sources.setdefault(caller.source, {})[caller.fd] = caller

    def remove(self, caller: Caller) -> None:
        """Forget one."""
        group = self._sources[caller.source]
        del group[caller.fd]
        if not group:
            del self._sources[caller.source]

    def all(self) -> list[Caller]:
        """Return all of them."""
        return [caller for group in self._sources.values() for caller in group.values()]

    def waiting(self, node: str) -> list[Caller]:
        """Return those that say they are this node."""
        return [one for one in self.all() if one.credentials and one.credentials.node == node]

    def next_to_go(self) -> Caller:
        """Return who gives up his place first."""
        last = [min(group.values(), key=_stage) for group in self._sources.values()]
        return max(last, key=lambda one: (len(self._sources[one.source]), -one.stage))


def _stage(caller: Caller) -> int:
    return caller.stage


def source_of(address: str) -> str:
    """Return what counts as one source: an IPv4 address, or a /64 network of IPv6."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"
