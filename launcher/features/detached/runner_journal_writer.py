"""Writes the journal of a job in a thread: no disk holds up the job.

Entries that cannot be written are lost and counted: a full or slow disk never stops a job.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from contextlib import suppress

from ...common import files
from ...common.errors import reason
from ...common.write_all import write_all
from . import runner_journal as journal
from .runner_job_folder import LONGEST
from .runner_journal import JournalEntry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOST_QUEUED = 16 << 20
"""Bytes that may wait for the disk; more is lost."""

AT_ONCE = 1 << 20
"""Bytes in one write(2)."""

REST = 5.0
"""Seconds after a failure until the next try."""

LENGTH = 2
"""A journal is shortened at this multiple of its size limit, or of its last shortened size."""


class JournalWriter:
    """Writes entries in their order."""

    def __init__(self, path: str, failed: Callable[[str], None]) -> None:
        """Write to a file; `failed` is called in the thread with the reason for a loss.

        It is called at the first loss, and at the first after the file could be written again.
        """
        self._failed = failed
        self._file = _JournalFile(path)
        self._queue: deque[JournalEntry] = deque()
        self._queued = self._number = self._lost = 0
        self._changed = threading.Condition()
        self._closed = False
        self._why = ""
        self._next_try = self._at = 0.0
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def put(self, entry: JournalEntry) -> None:
        """Queue an entry, which gets its number when it is written; never waits."""
        with self._changed:
            if self._queued > MOST_QUEUED:
                self._lost += len(entry.data)
                return
            self._queue.append(entry)
            self._queued += journal.size(entry)
            self._changed.notify()

    def close(self, seconds: float) -> None:
        """Write waiting entries, shorten the journal and end; wait at most `seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while batch := self._take():
            self._write(batch)
        self._next_try = 0.0
        if self._lost:
            self._write([])
        self._file.close()

    def _take(self) -> list[JournalEntry]:
        """Return the next entries; [] at the end."""
        with self._changed:
            while not self._queue and not self._closed:
                self._changed.wait()
            batch: list[JournalEntry] = []
            length = 0
            while self._queue and length < AT_ONCE:
                batch.append(self._queue.popleft())
                length += journal.size(batch[-1])
            self._queued -= length
            return batch

    def _write(self, batch: list[JournalEntry]) -> None:
        """Write entries, or count them as lost."""
        if time.monotonic() < self._next_try:
            self._lose(batch)
            return
        self._at = batch[0].at if batch else self._at
        gap = [self._gap()] if self._lost else []
        try:
            self._file.append([self._numbered(one) for one in (*gap, *batch)])
        except OSError as error:
            self._fail(reason(error))
            self._lose(batch)
            return
        if gap:
            self._lost, self._why = 0, ""

    def _numbered(self, entry: JournalEntry) -> JournalEntry:
        self._number += 1
        return entry._replace(number=self._number)

    def _gap(self) -> JournalEntry:
        """Return a message that replaces lost output."""
        why = self._why or "the disk is slower than the job"
        text = f"{self._lost} bytes are missing here: {why}"
        return JournalEntry(0, self._at, journal.MESSAGE, text.encode())

    def _fail(self, why: str) -> None:
        self._next_try = time.monotonic() + REST
        if not self._why:
            self._failed(why)
        self._why = why

    def _lose(self, batch: list[JournalEntry]) -> None:
        with self._changed:
            self._lost += sum(len(entry.data) for entry in batch)


class _JournalFile:
    """The file, which never has half an entry between two whole ones."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1
        self._size = self._shortest = 0
        self._sources: set[tuple[str, int]] = set()

    def append(self, entries: Sequence[JournalEntry]) -> None:
        """Append entries, and shorten the file if it has become long.

        Raises:
            OSError: the entries cannot be written; the file is unchanged.
        """
        if self._fd >= 0 and not os.fstat(self._fd).st_nlink:
            self._close()  # it was removed: nobody could read further entries
        if self._fd < 0:
            self._fd = _open(self._path)
        data = b"".join(map(journal.pack, entries))
        try:
            write_all(self._fd, data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        self._sources |= {one.source for one in journal.output(entries)}
        if self._size > LENGTH * max(journal.limit(len(self._sources)), self._shortest):
            self._shorten()

    def close(self) -> None:
        """Shorten the journal as far as possible, and close it."""
        if self._size > journal.room(len(self._sources)):
            self._shorten()
        if self._fd >= 0:
            self._close()

    def _close(self) -> None:
        os.close(self._fd)
        self._fd, self._size = -1, 0

    def _shorten(self) -> None:
        """Drop old output; if that is not possible, the file stays unchanged."""
        fresh = f"{self._path}.new"
        fd = -1
        try:
            with open(files.open_own(self._path, LONGEST), "rb") as file:
                known = journal.entries(file.read())
            kept = b"".join(map(journal.pack, journal.shortened(known)))
            fd = _open(fresh, os.O_TRUNC)
            write_all(fd, kept)
            os.replace(fresh, self._path)
        except OSError:
            if fd >= 0:
                os.close(fd)
            with suppress(OSError):
                os.unlink(fresh)
        else:
            os.close(self._fd)
            self._fd, self._size = fd, len(kept)
        self._shortest = self._size


def _open(path: str, flags: int = 0) -> int:
    flags |= os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)
