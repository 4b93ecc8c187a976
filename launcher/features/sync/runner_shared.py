"""Finds out whether a node sees the same folder: a file that is in it for a moment."""

from __future__ import annotations

import os
from contextlib import suppress

PROBE = ".dsrun-probe-"
"""The prefix of the file's name; the rest is random."""


class SharedProbe:
    """A file in the folder that exists while some node looks for it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._name = ""
        self._users = 0

    def start(self) -> str:
        """Return the name of the file; "" if the folder cannot be written to."""
        self._users += 1
        if self._users == 1:
            name = f"{PROBE}{os.urandom(8).hex()}"
            flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
            with suppress(OSError):
                os.close(os.open(os.path.join(self._source, name), flags, 0o600))
                self._name = name
        return self._name

    def close(self) -> None:
        """Remove the file, unless another node looks for it."""
        self._users -= 1
        if self._users == 0 and self._name:
            with suppress(OSError):
                os.unlink(os.path.join(self._source, self._name))
            self._name = ""
