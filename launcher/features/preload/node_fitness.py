"""Checks which workers may be forked from a preloader: its imports must suit them."""

from __future__ import annotations

import os

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

READ_LATER = ("NCCL_", "GLOO_")
"""Prefixes of variables that their libraries read when a process group is made, not when they are
loaded. With --bind_nic, some of them differ between workers."""


class Imported(NamedTuple):
    """A preloader's report on its imports; `process` describes the message.

    Attributes:
        missing: modules that were not found, with a text for each.
        failed: modules that raised an exception, with a text for each.
        unsafe: why a fork would not be safe, "" if it is.
        read: the variables that were read, with their values; None for one that was not set.
        prefixes: prefixes of variables that libraries in C read.
        cpus: the CPUs on which imported libraries rely, or None.
        files: modification time in ns and size of imported files outside site-packages.
        folders: modification time in ns of the folders of site-packages.
    """

    modules: tuple[str, ...]
    missing: Mapping[str, str]
    failed: Mapping[str, str]
    unsafe: str
    read: Mapping[str, str | None]
    prefixes: tuple[str, ...]
    cpus: tuple[int, ...] | None
    files: Mapping[str, tuple[int, int]]
    folders: Mapping[str, int]


def parse(message: Mapping[str, Any]) -> Imported:
    """Return the report in a message.

    Raises:
        KeyError, TypeError, ValueError: the message is no report.
    """
    cpus = message["cpus"]
    return Imported(
        modules=tuple(message["modules"]),
        missing=dict(message["missing"]),
        failed=dict(message["failed"]),
        unsafe=str(message["unsafe"]),
        read=dict(message["read"]),
        prefixes=tuple(message["prefixes"]),
        cpus=None if cpus is None else tuple(cpus),
        files={path: (int(time), int(size)) for path, (time, size) in message["files"].items()},
        folders={path: int(time) for path, time in message["folders"].items()},
    )


def env_changed(imported: Imported, env: Mapping[bytes, bytes]) -> str:
    """Return a variable that imports read and whose value differs in this environment, or ""."""
    own = {_text(name): _text(value) for name, value in env.items()}
    names = {*imported.read, *(name for name in own if name.startswith(imported.prefixes))}
    judged = sorted(name for name in names if not name.startswith(READ_LATER))
    return next((name for name in judged if own.get(name) != imported.read.get(name)), "")


def without(folder: bytes, env: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
    """Return an environment without this folder at the front of PYTHONPATH.

    A worker may have its working folder there; this folder differs between runs of a held node.
    """
    first, _, rest = env.get(b"PYTHONPATH", b"").partition(b":")
    if first != folder:
        return env
    others = {name: value for name, value in env.items() if name != b"PYTHONPATH"}
    return others | {b"PYTHONPATH": rest} if rest else others


def cpus_changed(imported: Imported, cpus: Collection[int]) -> bool:
    """Return whether a worker would have other CPUs than its imported libraries rely on.

    () are the CPUs of the preloader.
    """
    return bool(imported.cpus is not None and cpus and set(cpus) != set(imported.cpus))


def changed(imported: Imported) -> str:
    """Return the first file or folder that is not as it was at the import, or ""."""
    files = (path for path, known in imported.files.items() if _file(path) != known)
    folders = (path for path, known in imported.folders.items() if _file(path)[0] != known)
    return next(files, "") or next(folders, "")


def below(imported: Imported, folder: str) -> bool:
    """Return whether a module was imported from this folder."""
    return any(path.startswith(f"{folder}/") for path in imported.files)


def _file(path: str) -> tuple[int, int]:
    """Return modification time and size of a file; zeros if it does not exist."""
    try:
        found = os.stat(path.encode("utf-8", "surrogateescape"))
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
