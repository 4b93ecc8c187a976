"""The node's half of `--setup`: runs the command once for all nodes that share a working folder.

A lock decides which node runs it; the others wait, and find it done. The last run is recorded in a
file of the working folder, or in the user's cache folder on this node if that cannot be written.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from contextlib import contextmanager, suppress

from ...common.errors import UsageError, reason
from ...common.exit_codes import as_shell
from ...common.private_folder import cache_root, private_folder
from ...common.stderr import tell
from ...common.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NAME = ".dsrun-setup"
"""The file in the working folder: JSON with `key`, a digest of the command and the files, and with
`job`, the id of the job that ran it."""

LARGEST = 4096
"""Bytes to read from a record."""

UNUSABLE = 1
"""Exit code if the command could not be run."""


def main(arguments: Sequence[str]) -> int:
    """Run the command of the first argument, unless that is done; return its exit code.

    The argument is JSON: `command`, `job`, `files` (whose contents count) and `once`, which says
    that another job may have done it. The working folder is the current one.
    """
    try:
        asked = read_json(arguments[0])
        command, job, once = str(asked["command"]), str(asked["job"]), bool(asked["once"])
        key = _key(command, [str(one) for one in asked["files"]])
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"setup: {error}") from None
    except OSError as error:
        tell(f"--setup_if {error.filename}: {reason(error)}")
        return UNUSABLE
    with _locked() as record:
        if _is_done(record, key, "" if once else job):
            return 0
        code = subprocess.call(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL)
        if code == 0:
            _write(record, {"key": key, "job": job})
    return as_shell(code)


def _key(command: str, files: Sequence[str]) -> str:
    digest = hashlib.sha256(command.encode("utf-8", "surrogateescape"))
    for path in files:
        with open(path, "rb") as file:
            digest.update(b"\0" + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


@contextmanager
def _locked() -> Iterator[int]:
    """Return a context of the record, which no other process on any node has at the same time.

    A lock of fcntl(2), which NFS has as well; flock(2) is local there on some systems.
    """
    fd = _opened()
    try:
        fcntl.lockf(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        os.close(fd)


def _opened() -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    with suppress(OSError):
        return os.open(NAME, flags, 0o600)
    name = hashlib.sha256(os.fsencode(os.getcwd())).hexdigest()[:16]
    folder = private_folder(cache_root(os.environ), "dsrun", "setup")
    return os.open(f"{folder}/{name}", flags, 0o600)


def _is_done(record: int, key: str, job: str) -> bool:
    """Return whether the record has this key, and this job unless that is ""."""
    try:
        known = read_json(os.pread(record, LARGEST, 0))
    except ValueError:
        return False
    if not isinstance(known, dict) or known.get("key") != key:
        return False
    return not job or known.get("job") == job


def _write(record: int, done: dict[str, str]) -> None:
    os.ftruncate(record, 0)
    os.pwrite(record, json.dumps(done).encode(), 0)
    os.fsync(record)
