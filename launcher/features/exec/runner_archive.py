"""Makes a tar archive of files of this machine, block by block, for `--copy`."""

from __future__ import annotations

import os
import stat
import tarfile

from ...common.errors import UsageError, reason
from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

BLOCK = 1 << 18
"""Bytes of a file read at a time."""

EXTRACT = (
    'd=$1; shift; while [ $# -gt 0 ]; do if [ "$(stat -L -c "%i %Z %s" -- "$2" 2>/dev/null)" = "$1"'
    ' ]; then echo "$2 is the same file there, in a shared folder: nothing was copied" >&2; exit 0;'
    ' fi; shift 2; done; mkdir -p -- "$d" && exec tar -xpof - -C "$d"'
)
"""Runs on each host: overwrites no file that the host shares with this machine."""


SHARED = b"in a shared folder: nothing was copied\n"
"""The end of a line by a host that already has the files."""


def shares(errors: Iterable[bytes]) -> bool:
    """Return whether a host's standard error reports that it shares the files."""
    return b"".join(errors).endswith(SHARED)


class Copied(NamedTuple):
    """A file or folder to copy: its path here, its name in the archive, and its path there."""

    path: str
    name: str
    target: str


def plan(paths: Sequence[str], to: str) -> tuple[str, list[Copied]]:
    """Return the folder in which hosts unpack the archive, and the content of the archive.

    Args:
        paths: files and folders of this machine.
        to: the folder for them on the hosts; "" for the absolute paths of this machine.

    Raises:
        UsageError: a path does not exist, or two would have one name there.
    """
    files = []
    for path in paths:
        if paths.count(path) > 1:
            raise UsageError(f"--copy {path}: is given twice; give it once")
        try:
            os.stat(path)
        except OSError as error:
            raise UsageError(f"--copy {path}: {reason(error)}") from None
        absolute = os.path.abspath(path)
        name = os.path.basename(absolute) if to else absolute.lstrip("/")
        if not name:
            raise UsageError(f"--copy {path}: a whole file system cannot be copied")
        files.append(Copied(path, name, os.path.join(to, name) if to else absolute))
    names = [file.name for file in files]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--copy: two files would be named {name!r} in {to or '/'}")
    return to or "/", files


def extract_argv(folder: str, files: Sequence[Copied]) -> tuple[str, ...]:
    """Return the command that unpacks the archive on a host."""
    checks = [word for file in files for word in (_identity(file.path), file.target)]
    return ("sh", "-c", EXTRACT, "sh", folder, *checks)


def _identity(path: str) -> str:
    """Return an identity of a file: the inode with the time of its last change, and the size."""
    status = os.stat(path)
    return f"{status.st_ino} {int(status.st_ctime)} {status.st_size}"


def _nothing() -> None:
    """Do nothing."""


def blocks(files: Sequence[Copied], on_file: Callable[[], None] = _nothing) -> Iterator[bytes]:
    """Yield the archive; `on_file` is called for each file that is in it.

    Raises:
        UsageError: a file cannot be read.
    """
    for file in files:
        yield from _tree(file.path, file.name, on_file, follow=True)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _tree(
    path: str, name: str, on_file: Callable[[], None], *, follow: bool = False
) -> Iterator[bytes]:
    """Yield a file, or a folder with everything in it; links in it stay links."""
    try:
        status = os.stat(path) if follow else os.lstat(path)
        if stat.S_ISREG(status.st_mode):
            yield from _file(path, name)
            on_file()
            return
        yield _header(path, name, status)
        names = sorted(os.listdir(path)) if stat.S_ISDIR(status.st_mode) else []
    except OSError as error:
        raise UsageError(f"--copy {path}: {reason(error)}") from None
    for one in names:
        yield from _tree(os.path.join(path, one), f"{name}/{one}", on_file)


def _file(path: str, name: str) -> Iterator[bytes]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        status = os.fstat(fd)
        yield _header(path, name, status)
        left = status.st_size
        while left:
            data = os.read(fd, min(BLOCK, left))
            if not data:
                raise UsageError(f"--copy {path}: it became shorter while it was copied")
            left -= len(data)
            yield data
        yield bytes(-status.st_size % tarfile.BLOCKSIZE)
    finally:
        os.close(fd)


def _header(path: str, name: str, status: os.stat_result) -> bytes:
    """Return the header of a file, folder or link.

    Raises:
        UsageError: the path is something else, such as a socket.
    """
    kinds = {stat.S_IFREG: tarfile.REGTYPE, stat.S_IFDIR: tarfile.DIRTYPE}
    kinds |= {stat.S_IFLNK: tarfile.SYMTYPE}
    kind = kinds.get(stat.S_IFMT(status.st_mode))
    if kind is None:
        raise UsageError(f"--copy {path}: only files, folders and links can be copied")
    info = tarfile.TarInfo(name)
    info.type = kind
    info.mode = stat.S_IMODE(status.st_mode)
    info.mtime = int(status.st_mtime)
    info.size = status.st_size if kind == tarfile.REGTYPE else 0
    info.linkname = os.readlink(path) if kind == tarfile.SYMTYPE else ""
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
