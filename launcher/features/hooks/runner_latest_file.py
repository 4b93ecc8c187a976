"""A file that always has the newest of many texts, written in a thread.

A file system that hangs, as a network's may, must not stop the loop.
"""

from __future__ import annotations

import os
import threading

from ...common.errors import reason
from ...common.unexpected import unexpected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...common.unexpected import Log

MODE = 0o644
"""Permissions of the file: a collector of another user reads it."""


class LatestFile:
    """Replaces a file as a whole, so that a reader never sees half of a text."""

    def __init__(self, path: str, failed: Callable[[str], None], log: Log) -> None:
        """Write to a file.

        Args:
            path: the file.
            failed: called from the thread with the reason, the first time that this fails.
            log: prints a message, given its text and level; called from the thread, too.
        """
        self._path = path
        self._failed: Callable[[str], None] | None = failed
        self._log = log
        self._text: str | None = None
        self._closed = False
        self._ready = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        self._thread.start()

    def put(self, text: str) -> None:
        """Write a text soon; one that has not been written yet is left out. Never waits."""
        with self._ready:
            self._text = text
            self._ready.notify()

    def close(self, seconds: float) -> None:
        """Wait until the last text is written, at most this number of seconds."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (text := self._take()) is not None:
            try:
                self._replace(text.encode())
            except OSError as error:
                self._tell(reason(error))
            except Exception as error:  # the boundary: the next text is tried
                self._tell(unexpected(error, self._log))

    def _tell(self, why: str) -> None:
        failed, self._failed = self._failed, None
        if failed is not None:
            failed(why)

    def _take(self) -> str | None:
        """Wait for the next text; return None at the end."""
        with self._ready:
            while self._text is None and not self._closed:
                self._ready.wait()
            text, self._text = self._text, None
            return text

    def _replace(self, data: bytes) -> None:
        # Nobody can take this name in advance, also in a folder that everybody can write to.
        new = f"{self._path}.{os.urandom(8).hex()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, MODE)
        try:
            with open(fd, "wb") as file:
                os.fchmod(fd, MODE)
                file.write(data)
            os.replace(new, self._path)
        except OSError:
            os.unlink(new)
            raise
