"""Notifies the workers of this node that the nodes of their job will change, so they can save."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from ...common import system
from ...common.errors import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class ChangeNotice:
    """A signal, or a file that exists from the notice until its round is over."""

    def __init__(self, how: str, folder: bytes, note: Callable[[str], None]) -> None:
        """Prepare the notice.

        Args:
            how: the name of a signal, a path, or "" for no notice.
            folder: where a relative path begins.
            note: takes a line for the user.
        """
        self._number = signal.Signals[how] if how in signal.Signals.__members__ else 0
        self._path = b"" if self._number or not how else os.path.join(folder, os.fsencode(how))
        self._note = note
        self._made = False

    def give(self, pass_on: Callable[[int], None]) -> None:
        """Notify the workers; `pass_on` sends a signal to all of them."""
        if self._number:
            pass_on(self._number)
        elif self._path:
            self._make()

    def end(self) -> None:
        """Remove the file, if this node has created it."""
        if self._made:
            self._made = False
            with suppress(OSError):
                system.unlink(self._path)

    def _make(self) -> None:
        """Create the file; on a shared file system another node may have done so."""
        try:
            system.close(
                system.open_fd(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC)
            )
            self._made = True
        except FileExistsError:
            return
        except OSError as error:
            self._note(f"--change_notice {os.fsdecode(self._path)}: {reason(error)}")
