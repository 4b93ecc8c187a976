"""Another user than root, whose uid has no entry in the user database, as with `docker -u 54321`."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

# These are loaded by whoever lacks a right; the folder of Python may be closed to that user.
from dsrun.launcher.common import access, account, port_words

if TYPE_CHECKING:
    from collections.abc import Iterator

assert access
assert account
assert port_words

UID = 54321
"""Nobody has it."""

WORDS = f"uid {UID}"
"""What messages call this user."""

COMMAND = (
    *("setpriv", f"--reuid={UID}", f"--regid={UID}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
)
"""What runs a program as this user, who may read everything: Python may be in root's home."""


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
