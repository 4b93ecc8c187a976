"""Notifies the workers of this node of a coming change of nodes: they can save their state."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from functools import partial

from ...common import system
from ...common.errors import reason
from ...common.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ...node.machine.blocking import Calls

SECONDS = 5.0
"""Seconds for the file system to answer."""


class ChangeNotice:
    """A signal, or a file that exists from the notice until its round is over.

    A child makes and removes the file: its file system may not answer.
    """

    def __init__(self, how: str, folder: bytes, note: Callable[[str], None], calls: Calls) -> None:
        """Prepare the notice.

        Args:
            how: the name of a signal, a path, or "" for no notice.
            folder: the base of a relative path.
            note: called with a message for the user.
            calls: owner of the children.
        """
        self._number = signal.Signals[how] if how in signal.Signals.__members__ else 0
        self._path = b"" if self._number or not how else os.path.join(folder, os.fsencode(how))
        self._note = note
        self._calls = calls
        self._made = self._busy = False
        self._then: Callable[[], None] | None = None

    def give(self, pass_on: Callable[[int], None]) -> None:
        """Notify the workers; `pass_on` sends a signal to all of them."""
        if self._number:
            pass_on(self._number)
        elif self._path and not self._made and not self._busy:
            self._call(_make, self._on_made)

    def close(self, then: Callable[[], None]) -> None:
        """Remove the file if this node created it, and call `then`; a later call replaces `then`.

        It is called even if the file system does not answer.
        """
        self._then = then
        if self._busy:
            return
        if self._made:
            self._made = False
            self._call(_remove, self._on_removed)
        else:
            self._then = None
            then()

    def _call(self, function: Callable[[bytes], object], answered: Callable[[str], None]) -> None:
        self._busy = True
        try:
            self._calls.call(
                partial(function, self._path), SECONDS, partial(self._on_answer, answered)
            )
        except OSError as error:
            self._on_answer(answered, json.dumps(reason(error)).encode())

    def _on_answer(self, answered: Callable[[str], None], data: bytes) -> None:
        self._busy = False
        try:
            problem = read_json(data)
        except ValueError:
            problem = f"no answer from its file system for {SECONDS:g} s"
        answered(problem)
        if self._then is not None and not self._busy:
            self.close(self._then)

    def _on_made(self, problem: str | None) -> None:
        """Handle the answer: "" if the file was made, None if it was there."""
        self._made = problem == ""
        if problem:
            self._note(f"--change_notice {os.fsdecode(self._path)}: {problem}")

    def _on_removed(self, problem: str) -> None:
        if problem:
            self._note(f"--change_notice {os.fsdecode(self._path)}: not removed: {problem}")


def _make(path: bytes) -> str | None:
    """Create the file; return None if another node has created it on a shared file system."""
    try:
        system.close(system.open_fd(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC))
    except FileExistsError:
        return None
    except OSError as error:
        return reason(error)
    return ""


def _remove(path: bytes) -> str:
    with suppress(OSError):
        system.unlink(path)
    return ""
