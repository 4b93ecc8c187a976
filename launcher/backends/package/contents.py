"""The part of dsrun that a node launcher needs, as one archive, and the hash of the archive.

The archive is a JSON object of texts by name, compressed. The hash is the JSON's, and does not
depend on the compression.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import lru_cache

from ...common.private_folder import cache_root, private_folder
from ...control import frames
from ..base import package_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NOT_SENT = """
    __main__.py entry_points.py launch.py runner.py toplevel api cli head planning
    backends/engines backends/ssh
"""

_RUNNERS_HALF = ("command", "json_types", "plan", "runner", "words")
"""Prefixes of a feature's files that only the runner needs."""

LEFT_OUT = frozenset({"accelerator/training", *(f"launcher/{name}" for name in _NOT_SENT.split())})
"""Files and folders that only the runner and programs on its machine need."""


def files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    """Return the names and facts of the Python files that a node launcher needs, below `root`."""
    folders = ["accelerator", "launcher"]
    while folders:
        folder = folders.pop()
        with os.scandir(f"{root}/{folder}") as found:
            for entry in sorted(found, key=lambda one: one.name):
                name = f"{folder}/{entry.name}"
                if name in LEFT_OUT or _is_the_runners(name):
                    continue
                if name.endswith(".py"):
                    yield name, entry.stat()
                elif entry.is_dir() and entry.name != "__pycache__":
                    folders.append(name)


def _is_the_runners(name: str) -> bool:
    """Return whether this is a file of a feature's half for the runner."""
    folder, _, file = name.rpartition("/")
    return file.startswith(_RUNNERS_HALF) and folder.startswith("launcher/features/")


@lru_cache
def packed() -> bytes:
    """Return the PACKAGE frame with the running dsrun."""
    return frames.pack(frames.PACKAGE, archive(package_root()))


def archive(root: str) -> bytes:
    """Return the archive of dsrun in a folder."""
    import zlib

    return zlib.compress(_text(root), 9)


@lru_cache
def digest(root: str) -> str:
    """Return the SHA-256 of the archive's JSON, in hex.

    It is saved with the sizes and times of the files, and renewed when one of them has changed.
    """
    facts = [root, *(f"{name} {seen.st_size} {seen.st_mtime_ns}" for name, seen in files(root))]
    state = "\n".join(facts)
    with suppress(OSError, ValueError), open(_kept_at(), encoding="utf-8") as file:
        kept, _, known = file.read().partition("\n\n")
        if known == state:
            return kept
    import hashlib

    made = hashlib.sha256(_text(root)).hexdigest()
    with suppress(OSError, ValueError):
        _keep(_kept_at(), f"{made}\n\n{state}")
    return made


def _kept_at() -> str:
    return f"{private_folder(cache_root(os.environ), 'dsrun')}/package.digest"


def _text(root: str) -> bytes:
    import json

    texts = {}
    for name, _ in files(root):
        with open(f"{root}/{name}", encoding="utf-8", newline="") as file:
            texts[name] = file.read()
    return json.dumps(texts, sort_keys=True).encode()


def _keep(path: str, text: str) -> None:
    """Write a file, in one step."""
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)
