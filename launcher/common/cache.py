"""The folder where dsrun keeps what it would otherwise have to find out again."""

from __future__ import annotations

import os
import stat


def private_folder() -> str:
    """Return `~/.cache/dsrun` (`XDG_CACHE_HOME`), created if need be; "" if it is not private."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = f"{home}/dsrun"
    try:
        seen = _stat(folder)
    except OSError:
        return ""
    own = stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o022
    return folder if own and os.path.isabs(home) else ""


def _stat(folder: str) -> os.stat_result:
    try:
        return os.lstat(folder)
    except FileNotFoundError:
        os.makedirs(folder, 0o700, exist_ok=True)
        return os.lstat(folder)
