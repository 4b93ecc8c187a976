"""Keeps a copy of dsrun on a node. The bootstrap runs this module from the received archive.

A copy is written to a new folder that is then renamed, so there is never half a copy.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

DAY = 86400.0

KEPT = 3
"""Number of most recently used copies that are never removed."""

NOT_SAFE = "other users can replace files in ~/.cache and in the temporary folder"

NOT_PRIVATE = "not a private folder of this user (mode 0700, no link)"

UNUSED, UNFINISHED = 30 * DAY, DAY
"""Seconds after which other copies, and unfinished ones, are removed."""


def place(
    bases: Sequence[str],
    digest: str,
    files: Mapping[str, str],
    intact: Callable[[str, str], str],
) -> str:
    """Keep a copy below the first folder where that is possible; return its folder.

    Args:
        bases: the folders, the preferred one first.
        digest: identifies the copy.
        files: its files by relative name.
        intact: returns the folder of a copy below one of `bases`, "" if it cannot be used.

    Raises:
        SystemExit: no folder can hold the copy.
    """
    reasons = []
    for base in bases:
        try:
            _write(base, digest, files, intact)
        except OSError as error:
            reasons.append(f"{base}: {error.strerror or error}")
            continue
        if folder := intact(base, digest):
            return folder
        reasons.append(f"{base}: {NOT_PRIVATE}")
    why = "; ".join(reasons) or NOT_SAFE
    raise SystemExit(f"dsrun: no place to store dsrun: {why}; set XDG_CACHE_HOME there")


def _write(
    base: str, digest: str, files: Mapping[str, str], intact: Callable[[str, str], str]
) -> None:
    """Keep a copy below `base`.

    Raises:
        OSError: the copy cannot be written.
    """
    package = f"{base}/package"
    with suppress(FileExistsError):
        os.mkdir(os.path.dirname(base), 0o700)  # ~/.cache, but not a home
    for folder in (base, package):
        _own(folder)
    new = tempfile.mkdtemp(prefix=".new-", dir=package)
    try:
        _fill(new, files)
        _rename(new, f"{package}/{digest}", lambda: bool(intact(base, digest)))
    finally:
        shutil.rmtree(new, ignore_errors=True)
    with suppress(OSError):  # another node launcher cleans up as well
        clean(package, time.time())


def _own(folder: str) -> None:
    """Create a folder, or close one of this user's that others could read but not write."""
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    seen = os.lstat(folder)
    ours = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid()
    if not ours or seen.st_mode & 0o022:
        raise OSError(0, NOT_PRIVATE)
    if seen.st_mode & 0o777 != 0o700:
        os.chmod(folder, 0o700)


def _fill(folder: str, files: Mapping[str, str]) -> None:
    """Write all files, and the manifest with their sizes and times.

    After a power cut a file has its full size only if its data were written. So the manifest is the
    one file that is worth waiting for.
    """
    manifest = {}
    for name, text in files.items():
        path = f"{folder}/{name}"
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "x", encoding="utf-8", newline="") as file:
            file.write(text)
        seen = os.stat(path)
        manifest[name] = [seen.st_size, seen.st_mtime_ns]
    with open(f"{folder}/manifest", "x", encoding="utf-8") as file:
        json.dump(manifest, file)
        file.flush()
        os.fsync(file.fileno())


def _rename(new: str, final: str, is_intact: Callable[[], bool]) -> None:
    """Give a new copy its name, in place of a damaged one; another node launcher may be first."""
    try:
        os.rename(new, final)
    except OSError:
        if is_intact():
            return
        old = f"{new}.old"
        with suppress(FileNotFoundError):
            os.rename(final, old)
        with suppress(OSError):
            os.rename(new, final)
        _remove(old)


def clean(package: str, now: float) -> None:
    """Remove unused and unfinished copies, at the time `now`."""
    ages = {name: now - os.lstat(f"{package}/{name}").st_mtime for name in os.listdir(package)}
    copies = sorted((name for name in ages if not name.startswith(".")), key=ages.__getitem__)
    unused = [name for name in copies[KEPT:] if ages[name] > UNUSED]
    for name in [*unused, *(set(ages) - set(copies))]:
        if ages[name] > UNFINISHED:
            gone = f"{package}/.old-{name.lstrip('.')}"
            with suppress(OSError):
                os.rename(f"{package}/{name}", gone)  # nobody finds a part of the copy
            _remove(gone)


def _remove(path: str) -> None:
    shutil.rmtree(path, ignore_errors=True)
    with suppress(OSError):
        os.unlink(path)
