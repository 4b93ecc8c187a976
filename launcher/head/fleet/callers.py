"""Connections that are not authenticated yet, and the choice of one to drop at the limit. Pure.

Anybody who can reach the port can connect, so the number of connections is limited. At the limit,
the source with the most connections loses one. Connections without data go first, the oldest of
them before others; then those in the handshake; then those whose token has not arrived yet. A node
launcher sends at once. It is displaced neither by a flood of silent connections from its own source
(a NAT, a pod network) nor by any from elsewhere. If it is dropped nevertheless, it dials again.
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
"""Connections served at a time before they are authenticated."""


class Stage(IntEnum):
    """The progress of a caller."""

    SILENT = 0
    """It has sent nothing valid yet."""
    HANDSHAKE = 1
    """It has sent a TLS hello."""
    IDENTIFIED = 2
    """It has sent its credentials."""


_MAPPED = bytes(10) + b"\xff\xff"
"""The prefix of an IPv4-mapped IPv6 address (RFC 4291, 2.5.5.2)."""


class Caller:
    """A connection that is not authenticated yet.

    Attributes:
        source: the address it comes from, as returned by `source_of`.
        stage: its progress.
        line: its stream, once the handshake is done.
        credentials: its credentials, once it has sent them.
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
    """All connections that are not authenticated yet, by source, the oldest first."""

    def __init__(self) -> None:
        self._sources: dict[str, dict[int, Caller]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._sources.values()))

    def __contains__(self, caller: Caller) -> bool:
        return self._sources.get(caller.source, {}).get(caller.fd) is caller

    def add(self, caller: Caller) -> None:
        """Add a caller."""
        self._sources.setdefault(caller.source, {})[caller.fd] = caller

    def remove(self, caller: Caller) -> None:
        """Remove a caller."""
        group = self._sources[caller.source]
        del group[caller.fd]
        if not group:
            del self._sources[caller.source]

    def all(self) -> list[Caller]:
        """Return all callers."""
        return [caller for group in self._sources.values() for caller in group.values()]

    def waiting(self, node: str) -> list[Caller]:
        """Return the callers that claim to be this node."""
        return [one for one in self.all() if one.credentials and one.credentials.node == node]

    def next_to_go(self) -> Caller:
        """Return the caller to drop first."""
        last = [min(group.values(), key=_stage) for group in self._sources.values()]
        return max(last, key=lambda one: (len(self._sources[one.source]), -one.stage))


def _stage(caller: Caller) -> int:
    return caller.stage


def source_of(address: str) -> str:
    """Return the source of a connection: an IPv4 address, or a /64 network of IPv6."""
    if ":" not in address:
        return address
    packed = socket.inet_pton(socket.AF_INET6, address.partition("%")[0])
    if packed.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, packed[12:])
    return socket.inet_ntop(socket.AF_INET6, packed[:8] + bytes(8)) + "/64"
