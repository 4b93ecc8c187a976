"""Reads the journal of a job while it is written, and shortened."""

from __future__ import annotations

import os

from . import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal import Entry


class JournalReader:
    """Returns each entry once."""

    def __init__(self, path: str) -> None:
        """Read from the beginning of this file."""
        self._path = path
        self._file = (0, 0)
        self._at = self._number = 0

    def new(self) -> list[Entry]:
        """Return the entries that have been written since the last call; [] if there is no file.

        Raises:
            OSError: it cannot be read.
        """
        try:
            file = open(self._path, "rb")  # noqa: SIM115  # closed below
        except FileNotFoundError:
            return []
        with file:
            status = os.fstat(file.fileno())
            if (status.st_dev, status.st_ino) != self._file or status.st_size < self._at:
                self._file, self._at = (status.st_dev, status.st_ino), 0
            file.seek(self._at)
            data = file.read()
        found, end = [], 0
        for entry, behind in journal.unpack(data):
            end = behind
            if entry.number > self._number:
                found.append(entry)
        self._at += end
        if found:
            self._number = found[-1].number
        return found
