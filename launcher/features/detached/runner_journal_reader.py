"""Reads the journal of a job while it is written, and shortened."""

from __future__ import annotations

import os

from ...common import files
from ...common.errors import reason
from . import runner_journal as journal
from .runner_job_folder import JOURNAL, LONGEST, Damage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from .runner_journal import JournalEntry

BLOCK = 1 << 20
"""Bytes that are read at a time."""


class JournalReader:
    """Returns each entry once."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = (0, 0)
        self._at = self._number = 0

    def new(self) -> list[JournalEntry]:
        """Return the entries written since the last call; [] if there is no file.

        Raises:
            Damage: it cannot be read.
        """
        try:
            file = open(files.open_own(self._path, LONGEST), "rb")  # noqa: SIM115  # closed below
        except FileNotFoundError:
            return []
        except OSError as error:
            raise Damage(f"{JOURNAL}: {reason(error)}") from None
        with file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._at:
                self._file, self._at = (status.st_dev, status.st_ino), 0
            file.seek(self._at)
            found = [one for one in self._entries(file) if one.number > self._number]
        if found:
            self._number = found[-1].number
        return found

    def _entries(self, file: BinaryIO) -> Iterator[JournalEntry]:
        """Yield the complete entries from here on, and record a problem behind them.

        After damage, only the size of one entry is read: a file may have any size.
        """
        rest = b""
        while len(rest) < journal.LONGEST and (block := file.read(BLOCK)):
            data, behind = rest + block, 0
            for entry, end in journal.unpack(data):
                behind = end
                yield entry
            self._at += behind
            rest = data[behind:]
