"""Runs `--venv_script`: the environment that it leaves, and the interpreter it puts on PATH."""

from __future__ import annotations

import errno
import os
import shlex
import stat

from ...common import executable, system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    Environ = Mapping[bytes, bytes]

SHOWN = 3
"""Lines of a script's output that are shown if it fails."""


def environ_after(script: bytes, base: Environ, folder: bytes) -> dict[bytes, bytes]:
    """Source a shell file and return the environment that it leaves.

    Args:
        script: the path of the file.
        base: the environment at the start.
        folder: the folder to source it in, which is the workers' folder.

    Raises:
        OSError: the file is missing, not a regular file, or another user may write to it.
        ValueError: the script failed; the text has its exit code and its output.
    """
    import subprocess

    status = system.stat(script)
    if status.st_uid not in {0, system.getuid()} or status.st_mode & 0o002:
        raise PermissionError(1, "belongs to another user or is writable by all", script)
    if not stat.S_ISREG(status.st_mode):
        # With a pipe, bash would wait until a program writes to the pipe.
        raise OSError(errno.EINVAL, "is not a regular file", script)
    env = shlex.quote(executable.find("env"))
    shell: list[str | bytes] = ["/bin/bash", "-c", f'. "$0" >&2 && exec {env} -0', script]
    result = subprocess.run(shell, env=base, cwd=folder, capture_output=True, check=False)
    if result.returncode or not result.stdout:
        printed = result.stderr.decode("utf-8", "replace").strip().split("\n")[-SHOWN:]
        how = f"it ended with code {result.returncode}"
        raise ValueError(": ".join(filter(None, [how, " / ".join(map(str.strip, printed))[-300:]])))
    pairs = [item.partition(b"=") for item in result.stdout.split(b"\0") if item]
    return {name: value for name, _, value in pairs}


def interpreter(base: Environ, after: Environ) -> bytes:
    """Return the Python that a script put first on PATH; b"" if it put none there."""
    folders = _put_first(_path(base), _path(after))
    found = (executable.find(name, map(os.fsdecode, folders)) for name in ("python", "python3"))
    return os.fsencode(next(filter(None, found), ""))


def _path(environ: Environ) -> list[bytes]:
    return environ.get(b"PATH", os.fsencode(os.defpath)).split(b":")


def _put_first(before: list[bytes], after: list[bytes]) -> list[bytes]:
    """Return the folders that are new at the beginning of PATH."""
    if after[: len(before)] == before:
        return []
    same = 0
    while same < min(len(before), len(after)) and before[-1 - same] == after[-1 - same]:
        same += 1
    return after[: len(after) - same]
