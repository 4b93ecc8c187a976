"""Links between hosts: streams with delays, faults and ends that nobody tells of."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from typing import TYPE_CHECKING

from .descriptors import ERR, HUP, IN, OUT, RDHUP, Description
from .process import error

if TYPE_CHECKING:
    from .host import Host
    from .kernel import Kernel

WINDOW = 1 << 18
"""Bytes that are on their way or unread at most, in one direction."""

DELAY = 0.0005

GIVE_UP = 924.6
"""Seconds after which TCP takes a connection for dead on which nothing is acknowledged (tcp(7),
tcp_retries2)."""


class Channel:
    """One direction of a link.

    Attributes:
        silent: nothing arrives any more, and nobody is told.
        reset: both ends are told that the connection has failed.
        stalled: what is written waits for the end of this, apart from cuts of hosts.
    """

    def __init__(self, network: Network, source: Host, target: Host) -> None:
        self._network = network
        self._kernel = network.kernel
        self.source = source
        self.target = target
        self.arrived = bytearray()
        self.fin = self.closed = self.refused = self.reset = self.silent = False
        self.stalled = False
        self.reader: Description | None = None
        self.writer: Description | None = None
        self._on_way: deque[bytes] = deque()
        self._sent = 0
        self._last = 0.0
        self.total = 0

    @property
    def room(self) -> int:
        """Bytes that can be written now."""
        return WINDOW - self._sent - len(self.arrived)

    @property
    def unread(self) -> bytes:
        """All that was written and not read, whether it has arrived or not."""
        return bytes(self.arrived) + b"".join(self._on_way)

    def put(self, data: bytes) -> None:
        """Send bytes; b"" is the end."""
        self._on_way.append(data)
        self._sent += len(data)
        self.total += len(data)
        delay = self._network.delay(self.source, self.target)
        self._last = max(self._last, self._kernel.now + delay)
        self._kernel.at(self._last - self._kernel.now, self.flow)
        if self.silent:
            self._kernel.at(GIVE_UP, self._give_up)

    def _give_up(self) -> None:
        """Tell the writer that the connection is lost: nothing that it has sent is acknowledged."""
        self.refused = True
        if isinstance(self.writer, LinkEnd) and self.writer.incoming is not None:
            self.writer.incoming.fin = True
        self._wake(self.writer)

    def flow(self) -> None:
        """Let one segment arrive, unless something is in its way."""
        if self._on_way and not self._blocked():
            data = self._on_way.popleft()
            self._sent -= len(data)
            if self.closed:
                self._answer()
                return
            self.arrived += data
            self.fin = not data
            self._wake(self.reader)

    def resume(self) -> None:
        """Send again what could not arrive."""
        self._last = self._kernel.now
        for _ in self._on_way:
            self._last += self._network.delay(self.source, self.target)
            self._kernel.at(self._last - self._kernel.now, self.flow)

    def fail(self) -> None:
        """Tell both ends that the connection is lost."""
        self.reset = True
        self._wake(self.reader)
        self._wake(self.writer)

    def _blocked(self) -> bool:
        return self.silent or self.stalled or self._network.is_cut(self.source, self.target)

    def take(self, size: int) -> bytes:
        """Read what has arrived, maybe not all of it."""
        chance = self._kernel.random
        size = min(size, len(self.arrived))
        if size > 1 and chance.random() < 0.2:
            size = chance.randint(1, size)
        was_full = self.room <= 0
        found = bytes(self.arrived[:size])
        del self.arrived[:size]
        if was_full:
            self._wake(self.writer)
        return found

    def leave(self) -> None:
        """Close the reader's side."""
        self.closed = True
        self.arrived.clear()
        self._answer()

    def _answer(self) -> None:
        """Let the writer know that nobody reads any more."""
        self._kernel.at(self._network.delay(self.target, self.source), self._refuse)

    def _refuse(self) -> None:
        if not (self.silent or self._network.is_cut(self.target, self.source)):
            self.refused = True
            self._wake(self.writer)

    @staticmethod
    def _wake(end: Description | None) -> None:
        if end is not None:
            end.changed()


class LinkEnd(Description):
    """One end of a link: it reads from one channel and writes to another, or only one of both."""

    kind = "socket"
    mode = stat.S_IFSOCK | 0o777

    def __init__(self, inode: int, incoming: Channel | None, outgoing: Channel | None) -> None:
        flags = os.O_RDWR
        if incoming is None or outgoing is None:
            flags = os.O_WRONLY if incoming is None else os.O_RDONLY
        super().__init__(inode, flags)
        self.incoming = incoming
        self.outgoing = outgoing
        if incoming is not None:
            incoming.reader = self
        if outgoing is not None:
            outgoing.writer = self

    def closed(self) -> None:
        """Tell the other end, as far as the network lets it know."""
        if self.outgoing is not None:
            self.outgoing.put(b"")
        if self.incoming is not None:
            self.incoming.leave()

    def try_read(self, size: int) -> bytes | None:
        """Read what has arrived."""
        channel = self.incoming
        if channel is None:
            raise error(errno.EBADF)
        if channel.arrived:
            return channel.take(size)
        if channel.reset:
            raise error(errno.ECONNRESET)
        return b"" if channel.fin else None

    def try_write(self, data: bytes) -> int | None:
        """Send what there is room for."""
        channel = self.outgoing
        if channel is None:
            raise error(errno.EBADF)
        if channel.reset or channel.refused:
            raise error(errno.EPIPE)
        if channel.room <= 0:
            return None if data else 0
        data = data[: channel.room]
        chance = self._random_of(channel)
        if len(data) > 4096 and chance < 0.2:
            data = data[: int(len(data) * chance * 5) or 1]
        if data:
            channel.put(data)
        return len(data)

    @staticmethod
    def _random_of(channel: Channel) -> float:
        return channel.source.kernel.random.random()

    def events(self) -> int:
        """Return what it is ready for."""
        found, into, out = 0, self.incoming, self.outgoing
        if into is not None:
            found |= IN if into.arrived or into.fin or into.reset else 0
            found |= RDHUP if into.fin else 0
            found |= HUP if (into.fin and out is None) or into.reset else 0
        if out is not None:
            found |= OUT if out.room > 0 else 0
            found |= ERR if out.reset or (out.refused and into is None) else 0
        return found


class Network:
    """All links, and what is wrong with the network.

    Attributes:
        channels: of links that may still be used.
        delays: seconds that a host adds to what it sends and gets.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.channels: list[Channel] = []
        self.delays: dict[str, float] = {}
        self._cut: dict[tuple[str, str], None] = {}

    def link(
        self, one: Host, other: Host, told: Description | None = None
    ) -> tuple[LinkEnd, LinkEnd]:
        """Return the ends of a new stream in both directions, at these hosts.

        `told` is told of changes in place of the first end, which is a part of it.
        """
        there, back = Channel(self, one, other), Channel(self, other, one)
        self.channels += [there, back]
        inode = self.kernel.descriptors.inode
        ours, theirs = LinkEnd(inode(), back, there), LinkEnd(inode(), there, back)
        if told is not None:
            back.reader = there.writer = told
        return ours, theirs

    def forget(self, end: LinkEnd) -> None:
        """Drop a stream that nobody uses."""
        self.channels = [one for one in self.channels if one not in {end.incoming, end.outgoing}]

    def channel(self, source: Host, target: Host) -> tuple[LinkEnd, LinkEnd]:
        """Return the ends of a new stream in one direction: for writing, for reading."""
        there = Channel(self, source, target)
        self.channels.append(there)
        inode = self.kernel.descriptors.inode
        return LinkEnd(inode(), None, there), LinkEnd(inode(), there, None)

    def delay(self, source: Host, target: Host) -> float:
        """Return how long a segment takes."""
        seconds = DELAY + self.delays.get(source.name, 0.0) + self.delays.get(target.name, 0.0)
        return seconds * self.kernel.random.uniform(0.5, 1.5)

    def cut(self, host: Host, direction: str = "both") -> None:
        """Let nothing leave a host ("out"), nothing reach it ("in"), or both."""
        for one in ("out", "in") if direction == "both" else (direction,):
            self._cut[host.name, one] = None

    def mend(self, host: Host, connections: str = "live") -> None:
        """End a cut; connections go on ("live"), fail ("reset"), or stay silent ("silent")."""
        for one in ("out", "in"):
            self._cut.pop((host.name, one), None)
        for channel in self._of(host):
            if connections == "silent":
                channel.silent = True
            elif connections == "reset":
                channel.fail()
            elif not channel.silent:
                channel.resume()

    def is_cut(self, source: Host, target: Host) -> bool:
        """Return whether nothing gets from one host to another."""
        return (source.name, "out") in self._cut or (target.name, "in") in self._cut

    def stall(self, end: LinkEnd, stalled: bool = True) -> None:
        """Let what is written to an end wait, or go on."""
        if end.outgoing is not None:
            end.outgoing.stalled = stalled
            if not stalled:
                end.outgoing.resume()

    def silence(self, end: LinkEnd) -> None:
        """Lose all that an end writes or would get from now on; nobody is told."""
        for channel in (end.incoming, end.outgoing):
            if channel is not None:
                channel.silent = True

    def reset(self, end: LinkEnd) -> None:
        """Let the connection of an end fail, at both ends."""
        for channel in (end.incoming, end.outgoing):
            if channel is not None:
                channel.fail()

    def power_off(self, host: Host) -> None:
        """Let the links of a host go silent."""
        for channel in self._of(host):
            channel.silent = True

    def _of(self, host: Host) -> list[Channel]:
        self.channels = [one for one in self.channels if not (one.closed and one.fin)]
        return [one for one in self.channels if host in {one.source, one.target}]
