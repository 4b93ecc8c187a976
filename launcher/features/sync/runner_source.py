"""The folder of --sync at the start of a run: its manifest, and the contents to send."""

from __future__ import annotations

import hashlib
import os
import re
import struct
import time

from ...common.errors import UsageError, reason
from ...common.files import open_regular
from . import runner_scan as scan
from .manifest import FILE, ManifestEntry, manifest
from .runner_hashes import Hashes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ...specs.sync import SyncSpec

BLOCK = 64 * 1024
"""Bytes that are sent at a time."""


class SyncSource:
    """The folder on this machine.

    Attributes:
        skipped: entries that cannot be synced, in words.
        outside: links that point out of the folder.
        key: tells copies of folders of the same name, by user and machine, apart.
    """

    def __init__(self, spec: SyncSpec, environ: Mapping[str, str]) -> None:
        """Read the folder; the hashes of its files are kept in the user's cache.

        Raises:
            UsageError: something in it cannot be read, or it is too large.
        """
        self.spec = spec
        found = scan.checked(spec)
        self.skipped, self.outside = found.skipped, found.outside
        name = re.sub(r"[^A-Za-z0-9._-]", "_", os.path.basename(spec.source)).lstrip(".")[:64]
        self.name = name or "folder"
        self.key = _key(spec.source)
        hashes, now = Hashes(self.key, environ), time.time()
        try:
            self.manifest = manifest(_entry(spec.source, item, hashes, now) for item in found.items)
        except OSError as error:
            raise UsageError(f"--sync: {os.fsdecode(error.filename)}: {reason(error)}") from None
        hashes.save()

    @property
    def paths(self) -> set[str]:
        """The paths that it contains, and "" for itself."""
        return {"", *(entry.path for entry in self.manifest.entries)}

    def announced(self) -> Iterator[bytes]:
        """Yield the manifest in transfer format, preceded by its length."""
        packed = self.manifest.packed
        yield struct.pack("!I", len(packed))
        for at in range(0, len(packed), BLOCK):
            yield packed[at : at + BLOCK]

    def size(self, positions: Iterable[int]) -> int:
        """Return the number of bytes of these files of the manifest."""
        return sum(self.manifest.entries[at].size for at in positions)

    def contents(self, positions: Iterable[int]) -> Iterator[bytes]:
        """Yield the contents of these files of the manifest, one after another.

        Raises:
            OSError: a file cannot be read, or has become shorter.
        """
        pieces = bytearray()
        for at in positions:
            for data in self._file(self.manifest.entries[at]):
                pieces += data
                if len(pieces) >= BLOCK:
                    yield bytes(pieces)
                    pieces.clear()
        if pieces:
            yield bytes(pieces)

    def _file(self, entry: ManifestEntry) -> Iterator[bytes]:
        path = os.path.join(os.fsencode(self.spec.source), _bytes(entry.path))
        left = entry.size
        with open(open_regular(path), "rb") as file:
            while left and (data := file.read(min(left, BLOCK))):
                left -= len(data)
                yield data
        if left:
            raise OSError(0, "has changed since the job was started", path)


def _entry(source: str, item: scan.Item, hashes: Hashes, now: float) -> ManifestEntry:
    if item.kind != FILE:
        return ManifestEntry(item.path, item.kind, item.mode, 0, item.target)
    size, digest = hashes.of(source, item, now)
    return ManifestEntry(item.path, FILE, item.mode, size, digest)


def _key(source: str) -> str:
    named = f"{os.uname().nodename}\0{os.getuid()}\0{source}"
    return hashlib.sha256(os.fsencode(named)).hexdigest()[:12]


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
