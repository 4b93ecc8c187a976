"""Unpacks a tar archive that arrives in pieces from a host, for `--fetch`.

Data from a host is not trusted: nothing is written outside the folder, links are not followed, and
only files and folders are made. Of the headers, only the kind, the name, the size, the permissions
and the time are used.
"""

from __future__ import annotations

import os
import re
import tarfile
from contextlib import suppress

from ...common.errors import reason
from ...common.unexpected import unexpected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...common.unexpected import Log

LONGEST = 1 << 16
"""Bytes of a long name, or of a member's other attributes, at most."""

LONGEST_PATH = 4096
"""Bytes of a path (PATH_MAX of Linux)."""

MOST = 1 << 62
"""Exclusive limit of a file's size, and of its time in seconds before or after 1970."""

PART = ".dsrun-part"
"""The name of a file that is not complete."""

_SIZE = tarfile.BLOCKSIZE
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
_META = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE)
_BODILESS = (
    *(tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE),
    *(tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE),
)
"""Types whose size field counts no body (POSIX, ustar); all other types have a body."""

_RECORD = re.compile(rb"([0-9]{1,9}) ([^=]+)=")


class BadArchive(Exception):
    """The archive is invalid; the text says why."""


class Unpacker:
    """One host's archive.

    Attributes:
        skipped: the name of the first member that is neither a file nor a folder, or "".
    """

    def __init__(self, folder: str, names: Sequence[str], log: Log) -> None:
        """Prepare to unpack; the folder is made with the first member.

        Args:
            folder: the destination.
            names: the only names that members may have, or begin with as a folder.
            log: prints a message about a problem of the archive.
        """
        self._folder = folder
        self._names = frozenset(names)
        self._data = bytearray()
        self._left = self._padding = 0
        self._meta: dict[bytes, bytes] = {}
        self._take: Callable[[bytes], None] = _ignore
        self._finish: Callable[[], None] = _nothing
        self._file = self._parent = -1
        self._problem = ""
        self._log = log
        self.skipped = ""
        self.files = 0

    def add(self, data: bytes) -> None:
        """Take the next piece of the archive."""
        if self._problem:
            return
        self._data += data
        try:
            while self._step():
                pass
        except OSError as error:
            self._problem = f"{error.filename or self._folder}: {reason(error)}"
        except (BadArchive, tarfile.TarError) as error:
            self._problem = f"its archive is not valid: {error}"
        except Exception as error:
            self._problem = f"its archive is not valid: {unexpected(error, self._log)}"

    def close(self) -> str:
        """Finish; return why something is missing, or ""."""
        unfinished = self._left or self._padding or self._data.strip(b"\0")
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(PART, dir_fd=self._parent)
            with suppress(OSError):
                self._close_file()
        return self._problem or ("its archive is not complete" if unfinished else "")

    # -- the archive ------------------------------------------------------------------------

    def _step(self) -> bool:
        """Handle the next part; return whether there may be more."""
        if self._left:
            part = bytes(self._data[: self._left])
            self._left -= len(part)
            self._take(part)
            if not self._left:
                self._finish()
        elif self._padding:
            part = bytes(self._data[: self._padding])
            self._padding -= len(part)
        elif len(self._data) >= _SIZE:
            part = bytes(self._data[:_SIZE])
            if part.strip(b"\0"):
                self._on_header(tarfile.TarInfo.frombuf(part, "utf-8", "surrogateescape"))
        else:
            return False
        del self._data[: len(part)]
        return bool(self._data)

    def _on_header(self, info: tarfile.TarInfo) -> None:
        if info.type in _META:
            self._expect_meta(info)
            return
        meta, self._meta = self._meta, {}
        if tarfile.XHDTYPE in meta:
            _apply(meta[tarfile.XHDTYPE], info)
        if tarfile.GNUTYPE_LONGNAME in meta:
            info.name = os.fsdecode(meta[tarfile.GNUTYPE_LONGNAME].rstrip(b"\0"))
        _check_numbers(info)
        self._take, self._finish = _ignore, _nothing
        if info.type in _FILES:
            self._start_file(info)
        elif info.type == tarfile.DIRTYPE:
            os.close(self._open_folder(self._parts(info.name)))
        elif info.type != tarfile.XGLTYPE:
            self.skipped = self.skipped or info.name[:LONGEST_PATH]
        self._expect(0 if info.type in _BODILESS else info.size)
        if info.type in _FILES and not info.size:
            self._finish()

    def _expect(self, size: int) -> None:
        self._left, self._padding = size, -size % _SIZE

    def _expect_meta(self, info: tarfile.TarInfo) -> None:
        _check_numbers(info)
        if info.size > LONGEST:
            raise BadArchive("a name is too long")
        body = bytearray()

        def finish() -> None:
            self._meta[info.type] = bytes(body)

        self._take, self._finish = body.extend, finish
        self._expect(info.size)

    # -- files ------------------------------------------------------------------------------

    def _parts(self, name: str) -> list[str]:
        """Return the parts of a member's path.

        Raises:
            BadArchive: the member was not requested, or leads out of the folder.
        """
        if len(name.encode("utf-8", "surrogateescape")) > LONGEST_PATH:
            raise BadArchive("a name is too long")
        parts = [part for part in name.removeprefix("./").rstrip("/").split("/") if part != "."]
        bad = not all(parts) or ".." in parts or "\0" in name
        if bad or not self._names.intersection(parts[:1]):
            raise BadArchive(f"it contains {name!r}, which was not requested")
        return parts

    def _open_folder(self, parts: Sequence[str]) -> int:
        """Open a folder below ours, and make those that are missing; follow no link."""
        os.makedirs(self._folder, exist_ok=True)
        fd = os.open(self._folder, _FOLDER)
        for part in parts:
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=fd)
                inner = os.open(part, _FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
        return fd

    def _start_file(self, info: tarfile.TarInfo) -> None:
        *folders, name = self._parts(info.name)
        self._parent = self._open_folder(folders)
        with suppress(FileNotFoundError):
            os.unlink(PART, dir_fd=self._parent)  # any kind of file: opening a pipe might wait
        self._file = os.open(PART, _NEW, 0o600, dir_fd=self._parent)

        def finish() -> None:
            os.fchmod(self._file, info.mode & 0o777)
            os.utime(self._file, (info.mtime, info.mtime))
            os.replace(PART, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            self._close_file()
            self.files += 1

        self._take, self._finish = self._write, finish

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _close_file(self) -> None:
        file, parent = self._file, self._parent
        self._file = self._parent = -1
        os.close(parent)
        os.close(file)  # a file system over the network may only now say that there is no room


def _check_numbers(info: tarfile.TarInfo) -> None:
    """Check the numbers that are used.

    Raises:
        BadArchive: no file has these names.
    """
    if not 0 <= info.size < MOST:
        raise BadArchive(f"a size of {info.size:.3g} bytes")
    if not -MOST < info.mtime < MOST:
        raise BadArchive(f"a time of {info.mtime:.3g} s")


def _apply(attributes: bytes, info: tarfile.TarInfo) -> None:
    """Apply the attributes of a pax header: records of `LENGTH KEY=VALUE` (POSIX, pax).

    Raises:
        BadArchive: a record is invalid.
    """
    at = 0
    while at < len(attributes):
        match = _RECORD.match(attributes, at)
        end = at + int(match[1]) if match else 0
        if match is None or not match.end() < end <= len(attributes):
            raise BadArchive("an invalid attribute")
        value, at = attributes[match.end() : end - 1], end
        if match[2] == b"path":
            info.name = os.fsdecode(value)
        elif match[2] == b"size":
            info.size = _number(value)
        elif match[2].startswith(b"GNU.sparse."):
            raise BadArchive("a sparse file")


def _number(digits: bytes) -> int:
    if not re.fullmatch(rb"[0-9]{1,19}", digits):
        raise BadArchive("an invalid size")
    return int(digits)


def _ignore(data: bytes) -> None:
    """Do nothing."""


def _nothing() -> None:
    """Do nothing."""
