"""The contents of the folder of --sync."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from ...common.errors import UsageError, reason
from ...common.files import kind as kind_in_words
from ...common.records import NamedTuple
from .manifest import FILE, FOLDER, LINK
from .runner_ignore import Ignored
from .runner_shared import PROBE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ...specs.sync import SyncSpec

LEFT_OUT = frozenset({".git", "__pycache__"})
"""Names that are never synced: a repository's own files, and Python's caches."""

NAMED = 5
"""Most entries to name if the folder is too large."""

UNITS = (("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


class Item(NamedTuple):
    """Something in the folder.

    Attributes:
        path: relative to the folder, as `to_wire` makes it.
        kind: FILE, FOLDER or LINK.
        mode: its permissions; 0 for a link.
        size: the bytes of a file; 0 for others.
        target: the target of a link, relative to the link's folder if it is in the synced folder;
            "" for others.
        stamp: values that change with a file's contents: size, times in nanoseconds, inode.
    """

    path: str
    kind: str
    mode: int
    size: int = 0
    target: str = ""
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)


class Scan(NamedTuple):
    """The files to sync, and those left out.

    Attributes:
        items: the files, folders and links, in the order of their paths.
        skipped: files that cannot be synced, in words.
        outside: links that point out of the folder.
    """

    items: list[Item]
    skipped: list[str]
    outside: list[str]


def checked(spec: SyncSpec) -> Scan:
    """Return the contents of the folder.

    Raises:
        UsageError: the folder cannot be read, is too large, or lacks the script or the workers'
            folder.
    """
    found = scan(spec.source)
    paths = {item.path for item in found.items}
    wire = _wire(os.fsencode(spec.script))
    if wire and wire not in paths:
        raise UsageError(f"--sync {spec.source}: the script {spec.script} is excluded{_WHY}")
    (folder, place), *_ = spec.moved.items()
    if place and _wire(os.fsencode(place)) not in paths:
        raise UsageError(f"--sync {spec.source}: the workers' folder {folder} is excluded{_WHY}")
    total = sum(item.size for item in found.items)
    if total > spec.limit:
        raise UsageError(
            f"--sync {spec.source}: {shown(total)}, but --sync_limit is {shown(spec.limit)}; the"
            f" largest: {_largest(found.items)}; name what the nodes do not need in .dsrunignore,"
            " or raise the limit"
        )
    return found


_WHY = ": see .gitignore, .dsrunignore and docs/sync.md"


def scan(source: str) -> Scan:
    """Return the contents of a folder.

    Raises:
        UsageError: an entry of the folder cannot be read.
    """
    found = Scan([], [], [])
    _walk(found, os.fsencode(source), b"", Ignored())
    for names in (found.items, found.skipped, found.outside):
        names.sort()
    return found


def _walk(found: Scan, root: bytes, path: bytes, ignored: Ignored) -> None:
    folder = os.path.join(root, path)
    try:
        with os.scandir(folder) as listed:
            items = {_wire(item.name): item for item in listed}
        prefix = _wire(path)
        ignored = ignored.within(os.fsdecode(folder), prefix, items)
        for name, item in items.items():
            is_folder = item.is_dir(follow_symlinks=False)
            inner = f"{prefix}{name}"
            if name in LEFT_OUT or name.startswith(PROBE):
                continue
            if ignored.has(f"{inner}/" if is_folder else inner):
                continue
            with suppress(FileNotFoundError):  # it has just been removed
                _add(found, root, inner, item.stat(follow_symlinks=False))
            if is_folder:
                _walk(found, root, path + item.name + b"/", ignored)
    except OSError as error:
        raise UsageError(f"--sync: {os.fsdecode(error.filename)}: {reason(error)}") from None


def _add(found: Scan, root: bytes, path: str, status: os.stat_result) -> None:
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISREG(status.st_mode):
        times = status.st_mtime_ns, status.st_ctime_ns
        stamp = (status.st_size, *times, status.st_ino)
        found.items.append(Item(path, FILE, mode, status.st_size, stamp=stamp))
    elif stat.S_ISDIR(status.st_mode):
        found.items.append(Item(path, FOLDER, mode))
    elif stat.S_ISLNK(status.st_mode):
        target = _target(root, path)
        if target.startswith("/") or _leaves(path, target):
            found.outside.append(path)
        found.items.append(Item(path, LINK, 0, target=target))
    else:
        found.skipped.append(f"{path} ({kind_in_words(status.st_mode)})")


def _target(root: bytes, path: str) -> str:
    """Return the target of a link; if it is in the folder, relative to the link's own folder."""
    target = _wire(os.readlink(os.path.join(root, _bytes(path))))
    top = _wire(root)
    if target == top or target.startswith(f"{top}/"):
        return os.path.relpath(target, os.path.dirname(os.path.join(top, path)))
    return target


def _leaves(path: str, target: str) -> bool:
    place = os.path.normpath(os.path.join(os.path.dirname(path), target))
    return place == ".." or place.startswith("../")


def _largest(items: list[Item]) -> str:
    """Return the entries of the folder that are largest, with all that is in them."""
    sizes: dict[str, int] = {}
    for item in items:
        top = item.path.partition("/")[0]
        sizes[top] = sizes.get(top, 0) + item.size
    named = sorted(sizes.items(), key=lambda one: (-one[1], one[0]))[:NAMED]
    return ", ".join(f"{name} ({shown(size)})" for name, size in named)


def shown(size: int) -> str:
    """Return a number of bytes in words."""
    for unit, bytes_in_it in UNITS:
        if size >= bytes_in_it:
            return f"{size / bytes_in_it:.3g} {unit}"
    return f"{size} bytes"


def _wire(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
