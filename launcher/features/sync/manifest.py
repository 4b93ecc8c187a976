"""The contents of a synced folder, as runner and nodes name them: a manifest. Pure.

Paths are relative to the folder, with `/` between names, as `environment.to_wire` makes them.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from itertools import pairwise

from ...common.records import NamedTuple
from ...common.text import read_json
from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FOLDER, FILE, LINK = "d", "f", "l"

LONGEST = 4096
"""Maximum bytes of a path, or of a link's target (PATH_MAX of Linux)."""

LARGEST = 512 << 20
"""Bytes of a manifest: several million entries."""

_HEX = frozenset("0123456789abcdef")


class ManifestEntry(NamedTuple):
    """A file, folder or link.

    Attributes:
        kind: FOLDER, FILE or LINK.
        mode: the permissions of a file or folder; 0 for a link.
        size: the bytes of a file; 0 for others.
        content: the SHA-256 of a file as hex; the target of a link; "" for a folder.
    """

    path: str
    kind: str
    mode: int
    size: int
    content: str


class Manifest(NamedTuple):
    """All entries, each folder before its contents.

    Attributes:
        packed: the entries in the form in which they are sent.
        digest: a digest that identifies the contents.
    """

    entries: Sequence[ManifestEntry]
    packed: bytes
    digest: str


def manifest(entries: Iterable[ManifestEntry]) -> Manifest:
    """Return the manifest of these entries, in any order."""
    ordered = sorted(entries)
    text = json.dumps(ordered, separators=(",", ":")).encode()
    return Manifest(ordered, zlib.compress(text, 1), hashlib.sha256(text).hexdigest())


def unpack(packed: bytes) -> Manifest:
    """Return the manifest that is packed in these bytes.

    Raises:
        BadFrame: the bytes are not a manifest, or an entry would lie outside of the folder.
    """
    try:
        inflate = zlib.decompressobj()
        text = inflate.decompress(packed, LARGEST)
        rows = read_json(text)
    except (zlib.error, ValueError):
        raise frames.BadFrame("not a manifest") from None
    if inflate.unconsumed_tail or not isinstance(rows, list):
        raise frames.BadFrame("not a manifest")
    entries = [_entry(row) for row in rows]
    _check_order(entries)
    return Manifest(entries, packed, hashlib.sha256(text).hexdigest())


def _entry(row: object) -> ManifestEntry:
    if not isinstance(row, list) or len(row) != len(ManifestEntry._fields):
        raise frames.BadFrame("not an entry of a manifest")
    path, kind, mode, size, content = row
    texts = all(isinstance(one, str) and _encodes(one) for one in (path, kind, content))
    numbers = all(type(one) is int and 0 <= one <= frames.MOST for one in (mode, size))
    if not (texts and numbers and mode <= 0o777 and _is_path(path) and _fits(kind, size, content)):
        raise frames.BadFrame(f"not valid in a manifest: {row!r:.200}")
    return ManifestEntry(path, kind, mode, size, content)


def _encodes(text: str) -> bool:
    """Return whether a text can be the name of a file: no NUL, and not too long."""
    try:
        return "\0" not in text and len(text.encode("utf-8", "surrogateescape")) < LONGEST
    except UnicodeEncodeError:
        return False


def _is_path(path: str) -> bool:
    return not {"", ".", ".."} & set(path.split("/"))


def _fits(kind: str, size: int, content: str) -> bool:
    if kind == FILE:
        return len(content) == 64 and set(content) <= _HEX
    return size == 0 and (bool(content) if kind == LINK else kind == FOLDER and not content)


def _check_order(entries: Sequence[ManifestEntry]) -> None:
    """Check that no path comes twice, and that each is in a folder of the manifest.

    Raises:
        BadFrame: a path comes twice, or its folder is missing.
    """
    if any(first.path >= second.path for first, second in pairwise(entries)):
        raise frames.BadFrame("a manifest out of order")
    folders = {"", *(one.path for one in entries if one.kind == FOLDER)}
    for entry in entries:
        if entry.path.rpartition("/")[0] not in folders:
            raise frames.BadFrame(f"not in a folder of the manifest: {entry.path!r:.200}")
