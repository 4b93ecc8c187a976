"""What all boundaries share: the places where data from outside comes in, one for each way in.

A reader names what it refuses by an exception of its own. Anything else that is raised there is a
fault of dsrun that somebody else can cause: the boundary refuses the data all the same, so that it
costs only whoever has sent it, and tells of the fault here, so that it is not hidden.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Log = Callable[[str, str], None]

QUOTED = 200
"""Characters of an exception in words: it may quote what has come."""

LONGEST = 16 * 1024
"""Characters of the end of a traceback that are printed."""

observers: list[Callable[[Exception], None]] = []
"""Called with each such exception; the tests add one, which fails the test that it comes from."""


def unexpected(error: Exception, log: Log) -> str:
    """Return an exception that no reader has named in words; log its traceback at level `debug`."""
    import traceback

    for observe in observers:
        observe(error)
    lines = traceback.format_exception(type(error), error, error.__traceback__)
    log("".join(lines).rstrip("\n")[-LONGEST:], "debug")
    return f"{type(error).__name__}: {error}"[:QUOTED]
