"""Print dsrun's own messages on standard error: the one way for all that have no console."""

from __future__ import annotations

import sys
from contextlib import suppress

from .text import own_lines


def tell(text: str, name: str = "dsrun") -> None:
    """Print a message at once, each line of it behind the name of the command.

    It may quote what other programs and hosts have said. If nobody can read it, nothing happens.
    """
    with suppress(OSError, ValueError):  # gone, full, or closed
        sys.stderr.write(own_lines(text, name))
        sys.stderr.flush()
