"""The hashes of files, kept as long as the files do not change."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress

from ...common import files
from ...common.private_folder import cache_root, private_folder
from ...common.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from .runner_scan import Item

BLOCK = 1 << 20
"""Bytes that are read at a time."""

LARGEST = 256 << 20
"""Maximum bytes kept for one folder, enough for some million files."""

FRESH = 2.0
"""Seconds since a file's last change within which another change may not alter its times: the
coarsest clock of a common file system (FAT)."""

MARK = "dsrun hashes 1"
"""The first field of the file, which marks it as dsrun's."""


class Hashes:
    """The hashes of the files in one folder."""

    def __init__(self, key: str, environ: Mapping[str, str]) -> None:
        """Read the kept hashes; none if they are not readable, or not dsrun's."""
        self._path = ""
        self._known: dict[str, list[object]] = {}
        self._used: dict[str, list[object]] = {}
        self._changed = False
        with suppress(OSError, ValueError, TypeError):
            folder = private_folder(cache_root(environ), "dsrun", "hashes")
            self._path = os.path.join(folder, key)
            mark, known = read_json(files.read_own(self._path, LARGEST))
            if mark == MARK and isinstance(known, dict):
                self._known = {path: row for path, row in known.items() if isinstance(row, list)}

    def of(self, source: str, item: Item, now: float) -> tuple[int, str]:
        """Return the size and the SHA-256 of a file; `now` is the time, in seconds.

        Raises:
            OSError: the file cannot be read.
        """
        known = self._known.get(item.path)
        if known is not None and known[:-1] == list(item.stamp):
            self._used[item.path] = known
            return item.size, str(known[-1])
        path = os.path.join(os.fsencode(source), item.path.encode("utf-8", "surrogateescape"))
        size, digest = _hashed(path)
        _, *times, _ = item.stamp
        if size == item.size and max(times) < (now - FRESH) * 1e9:
            self._used[item.path] = [*item.stamp, digest]
        self._changed = True
        return size, digest

    def save(self) -> None:
        """Save the used hashes; a folder that is not writable is no error."""
        if not self._path or not (self._changed or self._used.keys() != self._known.keys()):
            return
        text = json.dumps([MARK, self._used], separators=(",", ":"))
        own = f"{self._path}.{os.getpid()}"
        with suppress(OSError):
            with open(own, "w", encoding="ascii") as file:
                file.write(text)
            os.rename(own, self._path)


def _hashed(path: bytes) -> tuple[int, str]:
    found, size = hashlib.sha256(), 0
    with open(files.open_regular(path), "rb") as file:
        while block := file.read(BLOCK):
            found.update(block)
            size += len(block)
    return size, found.hexdigest()
