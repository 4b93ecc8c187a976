"""Tells the workers of this node that the nodes of their job will change, so that they can save."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from ...common.errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ChangeNotice:
    """A signal, or a file that is there from the notice until its round is over."""

    def __init__(self, how: str, folder: bytes, tell: Callable[[str], None]) -> None:
        """Be ready.

        Args:
            how: a signal's name, a path, or "" for nothing at all.
            folder: where a relative path begins.
            tell: a line for the user.
        """
        self._number = signal.Signals[how] if how in signal.Signals.__members__ else 0
        self._path = b"" if self._number or not how else os.path.join(folder, os.fsencode(how))
        self._tell = tell
        self._made = False

    def give(self, pass_on: Callable[[int], None]) -> None:
        """Give the notice; `pass_on` sends a signal to all workers."""
        if self._number:
            pass_on(self._number)
        elif self._path:
            self._make()

    def end(self) -> None:
        """Take back what is this node's to take back."""
        if self._made:
            self._made = False
            with suppress(OSError):
                os.unlink(self._path)

    def _make(self) -> None:
        """Make the file; on a shared file system the first node's is everybody's."""
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
            self._made = True
        except FileExistsError:
            return
        except OSError as error:
            self._tell(f"--change_notice {os.fsdecode(self._path)}: {reason(error)}")
