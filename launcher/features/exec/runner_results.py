"""The output of a command on each host, and its end."""

from __future__ import annotations

import errno
import signal
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

IN_MEMORY = 256 * 1024
"""Bytes of one output kept in memory; more goes to a temporary file."""

MOST = 1 << 30
"""Maximum bytes kept of one output."""

TIMED_OUT = 124
"""The exit code of a command that was ended by --timeout, as timeout(1) has it."""

_BLOCK = 1 << 20


class Captured:
    """One output of one host."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0
        self._file: _UnnamedFile | None = None

    def add(self, data: bytes) -> None:
        """Append data.

        Raises:
            OSError: the output is too long, or there is no room for the temporary file.
        """
        self._size += len(data)
        if self._size > MOST:
            raise OSError(errno.EFBIG, f"more than {MOST} bytes; --no_fold stores nothing")
        if self._file is None and len(self._data) + len(data) > IN_MEMORY:
            self._file = _UnnamedFile()
            self._file.add(bytes(self._data))
            self._data.clear()
        (self._data.extend if self._file is None else self._file.add)(data)

    @property
    def key(self) -> Hashable:
        """A key shared by equal outputs; b"" for an empty output."""
        return bytes(self._data) if self._file is None else self._file.digest

    def blocks(self) -> Iterator[bytes]:
        """Yield the output in blocks, at least one."""
        return iter([bytes(self._data)]) if self._file is None else self._file.blocks()

    def close(self) -> None:
        """Delete the output."""
        if self._file is not None:
            self._file.close()


class _UnnamedFile:
    """A temporary file without a name."""

    def __init__(self) -> None:
        import hashlib
        import tempfile

        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The SHA-256 of its contents."""
        return self._hash.hexdigest()

    def add(self, data: bytes) -> None:
        """Append data."""
        self._file.write(data)
        self._hash.update(data)

    def close(self) -> None:
        """Close the file, which removes it."""
        self._file.close()

    def blocks(self) -> Iterator[bytes]:
        """Yield its contents."""
        self._file.seek(0)
        while block := self._file.read(_BLOCK):
            yield block


class HostResult:
    """One host.

    Attributes:
        outputs: the output of the command, by stream (1, 2).
        code: the command's exit code as a shell reports it; None if it has none.
        cause: the reason for a missing exit code.
    """

    def __init__(self, host: str) -> None:
        self.host = host
        self.outputs = {1: Captured(), 2: Captured()}
        self.code: int | None = None
        self.cause = ""
        self._failure = 0

    def fail(self, cause: str, code: int) -> None:
        """Note why there is no exit code, and the one to use instead."""
        self.code, self.cause, self._failure = None, cause, code

    def close(self) -> None:
        """Drop the outputs."""
        for output in self.outputs.values():
            output.close()

    @property
    def exit_code(self) -> int:
        """The exit code that this host contributes."""
        return self._failure if self.code is None else self.code


def exit_code(results: Sequence[HostResult]) -> int:
    """Return the largest exit code of all hosts."""
    return max((result.exit_code for result in results), default=0)


def code_words(code: int) -> str:
    """Return an exit code in words, with the signal that it stands for."""
    with suppress(ValueError):
        if code > 128:
            return f"exit code {code} ({signal.Signals(code - 128).name})"
    return f"exit code {code}"
