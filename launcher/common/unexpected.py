"""The part that all boundaries share. A boundary is the one place where data of a kind comes in.

A reader reports invalid data by its own kind of exception. Any other exception is a bug of dsrun
that outsiders can trigger. The boundary then also refuses the data, which affects only the sender,
and reports the bug here, where it is not hidden.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Log = Callable[[str, str], None]

QUOTED = 200
"""Characters of an exception that are quoted: it may contain the data."""

LONGEST = 16 * 1024
"""Characters at the end of a traceback that are printed."""

observers: list[Callable[[Exception], None]] = []
"""Functions called with each such exception; tests add one that makes the current test fail."""


def unexpected(error: Exception, log: Log = lambda _text, _level: None) -> str:
    """Return an exception that no reader expects in words; log its traceback at level `debug`."""
    import traceback

    for observe in observers:
        observe(error)
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    log("".join(lines).rstrip("\n")[-LONGEST:], "debug")
    return f"{type(error).__name__}: {error}"[:QUOTED]
