"""Another user than root, without an entry in the user database, as with `docker -u 54321`."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from dsrun.launcher.common import access, account, port_words

from .checkout import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LOADED = (access, account, port_words)
"""What explains a missing right, and is loaded only then: Python may be closed to this user."""

UID = 54321
"""Nobody has it."""

WORDS = f"uid {UID}"
"""What messages call this user."""

OPEN = """
set -e
place=$(mktemp -d)
mount -t tmpfs place "$place"
for path; do mkdir -p "$place$path"; mount --bind "$path" "$place$path"; done
"""
"""Keeps each folder that is named, in a mount namespace of its own."""


def argv(*words: str, groups: Sequence[int] = ()) -> list[str]:
    """Return the command line that runs a program as this user, with further groups.

    The program sees this Python and this checkout also where they are in root's own folder.
    """
    needed = [Path(one).resolve() for one in (CHECKOUT, sys.prefix, sys.base_prefix)]
    closed = {path: top for path in needed if (top := _closed(path)) is not None}
    lines = [OPEN]
    lines += [f"mount -t tmpfs -o mode=755 open {quote(str(top))}" for top in {*closed.values()}]
    for path in map(quote, map(str, closed)):
        lines.append(f'mkdir -p {path}; mount --move "$place"{path} {path}')
    lines.append('umount --lazy "$place"; rmdir "$place"')
    more = f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups"
    user = f"--reuid={UID} --regid={UID} {more}"
    lines.append(f"exec setpriv {user} {' '.join(map(quote, words))}")
    return ["unshare", "--mount", "sh", "-c", "\n".join(lines), "sh", *map(str, closed)]


def _closed(path: Path) -> Path | None:
    """Return the topmost folder above a path that others may not enter, None for none."""
    above = [one for one in reversed(path.parents) if not one.stat().st_mode & 0o001]
    return above[0] if above else None


@contextmanager
def other_user() -> Iterator[None]:
    """This process is this user inside the `with` block."""
    groups = os.getgroups()
    os.setgroups([])
    os.setresgid(UID, UID, 0)
    os.setresuid(UID, UID, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)
        os.setresgid(0, 0, 0)
        os.setgroups(groups)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter and read, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name).resolve()
