"""The journal of a job: the output of its ranks, and its events, in order. Pure.

A journal is a file of entries. It only grows, until it is replaced by a shorter one that has the
newest output of each rank.
"""

from __future__ import annotations

import struct

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MESSAGE, STDOUT, STDERR, EVENT = range(4)
"""The kinds of entries: a message of dsrun as text, output of a rank, or an event as JSON."""

OUTPUT = {STDOUT, STDERR}

PER_RANK = 1 << 20
"""Least bytes to keep of each rank, in a job of up to `WHOLE / PER_RANK` ranks."""

WHOLE = 16 << 20
"""Bytes that are kept of all ranks, but at least `LEAST` of each."""

LEAST = 1024

OTHERS = {MESSAGE: 256 << 10, EVENT: 2 << 20}
"""Bytes that are kept of messages, and of events."""

NOBODY = ("", 0)
"""The source of entries that are not output."""

_HEAD = struct.Struct("!QdIBBBI")

MOST_DATA = 1 << 24
"""Bytes of one entry: a larger number is damage."""

LONGEST = _HEAD.size + 2 * 255 + MOST_DATA
"""Bytes of an entry with its head."""

LATEST = 1e10
"""Seconds, some 300 years: a larger number is damage."""


class JournalEntry(NamedTuple):
    """One piece of output, or one event.

    Attributes:
        number: counts the entries of a job from 1 on; shorter journals keep the numbers.
        at: seconds since the job began.
        kind: MESSAGE, STDOUT, STDERR or EVENT.
        rank: the rank of an output; 0 for other entries.
        host: the host of the rank; "" for entries that are not output.
        role: the role of the rank or event in a job of several roles; "" for the whole job.
    """

    number: int
    at: float
    kind: int
    data: bytes
    rank: int = 0
    host: str = ""
    role: str = ""

    @property
    def source(self) -> tuple[str, int]:
        """The role and the rank."""
        return self.role, self.rank


def pack(entry: JournalEntry) -> bytes:
    """Return the bytes of an entry."""
    role, host = (one.encode("utf-8", "surrogateescape")[:255] for one in (entry.role, entry.host))
    sizes = len(role), len(host), len(entry.data)
    head = _HEAD.pack(entry.number, entry.at, entry.rank, entry.kind, *sizes)
    return head + role + host + entry.data


def size(entry: JournalEntry) -> int:
    """Return about how many bytes an entry has in a journal."""
    return _HEAD.size + len(entry.role) + len(entry.host) + len(entry.data)


def unpack(data: bytes, at: int = 0) -> Iterator[tuple[JournalEntry, int]]:
    """Yield the complete entries from a position on, each with the position of its end.

    A journal may end within an entry if its writer was killed; a damaged entry also ends it.
    """
    while at + _HEAD.size <= len(data):
        number, seconds, rank, kind, *sizes = _HEAD.unpack_from(data, at)
        end = at + _HEAD.size + sum(sizes)
        damaged = kind > EVENT or sizes[-1] > MOST_DATA or not (number and abs(seconds) < LATEST)
        if damaged or end > len(data):
            return
        role, host, payload = _split(data, at + _HEAD.size, sizes)
        names = (one.decode("utf-8", "surrogateescape") for one in (host, role))
        yield JournalEntry(number, seconds, kind, payload, rank, *names), end
        at = end


def _split(data: bytes, at: int, sizes: Iterable[int]) -> Iterator[bytes]:
    """Yield parts of these sizes, one behind another."""
    for part in sizes:
        yield data[at : at + part]
        at += part


def entries(data: bytes) -> list[JournalEntry]:
    """Return the entries of a journal."""
    return [entry for entry, _ in unpack(data)]


def room(ranks: int) -> int:
    """Return the number of bytes kept of each rank, given the number of ranks."""
    return max(LEAST, min(PER_RANK, WHOLE // max(ranks, 1)))


def limit(ranks: int) -> int:
    """Return the approximate maximum size in bytes of a journal after it was shortened."""
    return room(ranks) * max(ranks, 1) + sum(OTHERS.values())


def shortened(known: Sequence[JournalEntry]) -> list[JournalEntry]:
    """Return the newest entries: a share for each rank, and one for entries that are not output."""
    space = room(len({entry.source for entry in output(known)}))
    left: dict[tuple[int, tuple[str, int]], int] = {}
    kept = []
    for entry in reversed(known):
        key = (entry.kind, NOBODY) if entry.kind in OTHERS else (STDOUT, entry.source)
        free = left.setdefault(key, OTHERS.get(entry.kind, space))
        if free <= 0:
            continue
        left[key] = free - size(entry)
        kept.append(entry if entry.kind in OTHERS else entry._replace(data=entry.data[-free:]))
    return kept[::-1]


def output(known: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
    """Yield the output of ranks."""
    return (entry for entry in known if entry.kind in OUTPUT)
