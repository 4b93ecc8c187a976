"""Unpacks a tar archive that arrives in pieces from a host, for `--fetch`.

What a host sends is not trusted: nothing is written outside the folder, links are not followed, and
only files and folders are made.
"""

from __future__ import annotations

import os
import re
import tarfile
from contextlib import suppress

from ...common.errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LONGEST = 1 << 16
"""Bytes of a long name, or of a member's other attributes, at most."""

PART = ".dsrun-part"
"""The name of a file that is not complete."""

_SIZE = tarfile.BLOCKSIZE
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)


class BadArchive(Exception):
    """The archive is not valid; the text says why."""


class Unpacker:
    """One host's archive.

    Attributes:
        skipped: the names of members that are neither files nor folders.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        """Prepare to unpack; the folder is made with the first member.

        Args:
            folder: where to write.
            names: the only names that members may have, or begin with as a folder.
        """
        self._folder = folder
        self._names = frozenset(names)
        self._data = bytearray()
        self._left = self._padding = 0
        self._meta: dict[bytes, bytes] = {}
        self._take: Callable[[bytes], None] = _drop
        self._finish: Callable[[], None] = _nothing
        self._file = self._parent = -1
        self._problem = ""
        self.skipped: list[str] = []

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
        except (BadArchive, ValueError, tarfile.TarError) as error:
            self._problem = f"its archive is not valid: {error}"

    def close(self) -> str:
        """Finish; return why something is missing, or ""."""
        unfinished = self._left or self._padding or self._data.strip(b"\0")
        if self._file >= 0:
            with suppress(OSError):
                os.unlink(PART, dir_fd=self._parent)
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
        if info.size < 0:
            raise BadArchive("a negative size")
        if info.type in {tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE}:
            self._expect_meta(info)
            return
        meta, self._meta = self._meta, {}
        if tarfile.XHDTYPE in meta:
            _apply(meta[tarfile.XHDTYPE], info)
        if tarfile.GNUTYPE_LONGNAME in meta:
            info.name = os.fsdecode(meta[tarfile.GNUTYPE_LONGNAME].rstrip(b"\0"))
        self._take, self._finish = _drop, _nothing
        if info.type in _FILES:
            self._begin_file(info)
        elif info.type == tarfile.DIRTYPE:
            os.close(self._open_folder(self._parts(info.name)))
        elif info.type != tarfile.XGLTYPE:
            self.skipped.append(info.name)
        # The size of a link or a folder is not that of a body (POSIX, ustar).
        self._expect(info.size if info.type in {*_FILES, tarfile.XGLTYPE} else 0)
        if info.type in _FILES and not info.size:
            self._finish()

    def _expect(self, size: int) -> None:
        self._left, self._padding = size, -size % _SIZE

    def _expect_meta(self, info: tarfile.TarInfo) -> None:
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
            BadArchive: it was not asked for, or leads out of the folder.
        """
        parts = [part for part in name.removeprefix("./").rstrip("/").split("/") if part != "."]
        if not all(parts) or ".." in parts or "\0" in name or parts[0] not in self._names:
            raise BadArchive(f"it contains {name!r}, which was not asked for")
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

    def _begin_file(self, info: tarfile.TarInfo) -> None:
        *folders, name = self._parts(info.name)
        self._parent = self._open_folder(folders)
        self._file = os.open(PART, _NEW, 0o600, dir_fd=self._parent)

        def finish() -> None:
            os.fchmod(self._file, info.mode & 0o777)
            os.utime(self._file, (info.mtime, info.mtime))
            os.replace(PART, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
            self._close_file()

        self._take, self._finish = self._write, finish

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._file, view) :]

    def _close_file(self) -> None:
        os.close(self._file)
        os.close(self._parent)
        self._file = self._parent = -1


def _apply(attributes: bytes, info: tarfile.TarInfo) -> None:
    """Apply the attributes of a pax header: records of `LENGTH KEY=VALUE` (POSIX, pax).

    Raises:
        BadArchive: a record is not valid.
    """
    while attributes:
        match = re.match(rb"([0-9]{1,9}) ([^=]+)=", attributes)
        length = int(match[1]) if match else 0
        if match is None or not match.end() < length <= len(attributes):
            raise BadArchive("an invalid attribute")
        value = attributes[match.end() : length - 1]
        if match[2] == b"path":
            info.name = os.fsdecode(value)
        elif match[2] == b"size":
            info.size = int(value)
        attributes = attributes[length:]


def _drop(data: bytes) -> None:
    """Do nothing."""


def _nothing() -> None:
    """Do nothing."""
