"""Print dsrun's own messages on standard error: the one way for all that have no console."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from .text import own_lines


def tell(text: str, name: str = "dsrun") -> None:
    """Print a message at once, each line of it behind the name of the command.

    It may quote what other programs and hosts have said. If nobody can read it, nothing happens.
    On a terminal, lines break at spaces.
    """
    lines = own_lines(text, name)
    with suppress(OSError, ValueError):  # gone, full, or closed
        if sys.stderr.isatty():
            from .wrap import wrapped

            lines = wrapped(lines, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
        sys.stderr.write(lines)
        sys.stderr.flush()
