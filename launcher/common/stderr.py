"""Print dsrun's own messages on standard error, for all code that has no console."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from .text import own_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

SILENT = 5.0
"""Seconds after which a message says which path does not answer."""


def tell(text: str, name: str = "dsrun") -> None:
    """Print a message at once, each line preceded by the name of the command.

    The message may quote other programs and hosts. If nobody can read it, it is dropped. On a
    terminal, lines break at spaces.
    """
    lines = own_lines(text, name)
    with suppress(OSError, ValueError):  # gone, full, or closed
        if sys.stderr.isatty():
            from .wrap import wrapped

            lines = wrapped(lines, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
        sys.stderr.write(lines)
        sys.stderr.flush()


def reach(paths: Iterable[str]) -> None:
    """Wait until the file systems of all paths answer; report one that does not.

    Without this, a later use of such a path would wait silently. No thread is left.
    """
    import _thread

    at = ""
    answered, ended = _thread.allocate_lock(), _thread.allocate_lock()

    def watch() -> None:
        if not answered.acquire(timeout=SILENT):
            tell(f"no answer from {at} for {SILENT:g} s: waiting for its file system")
        ended.release()

    with answered:
        ended.acquire()
        _thread.start_new_thread(watch, ())
        for at in paths:
            with suppress(OSError, ValueError):  # the code that uses the path reports the problem
                os.stat(at)
    ended.acquire()
