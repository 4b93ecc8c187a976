"""The destination of a job's output and messages: a terminal, or a replacement."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Protocol

    class Screen(Protocol):
        """Shows or passes on the output of ranks, dsrun's messages, and the report at the end.

        Attributes:
            on_broken_pipe: called when nobody reads the output any longer.
        """

        on_broken_pipe: Callable[[], None]

        @property
        def has_lost_output(self) -> bool:
            """True if output of ranks could not be written."""
            ...

        @property
        def folds(self) -> bool:
            """True if equal lines of several ranks are printed once."""
            ...

        def label(self, rank: int, text: str, streams: Collection[int], /) -> None:
            """Print these streams of a rank with this label, and no others."""
            ...

        def fold(self, ranks: int, label: Callable[[Sequence[int]], str], /) -> None:
            """Print the same line of several of these ranks once, with their joint label."""
            ...

        def feed(self, rank: int, stream: int, data: bytes, written: Callable[[], None], /) -> None:
            """Print output of a rank; `written` is called once it has been written."""
            ...

        def log(self, text: str, level: str = "info", /) -> None:
            """Print a message for the user."""
            ...

        def shows(self, level: str, /) -> bool:
            """Return whether messages of this level are printed."""
            ...

        def status(self, text: str, /) -> None:
            """Show a status line in place of the former one; "" for none."""
            ...

        def still_shows(self, lines: list[str], /) -> bool:
            """Return whether the newest lines are these of a worker, in this order."""
            ...

        def print_report(self, text: str, /) -> None:
            """Print the report."""
            ...

        def flush(self, then: Callable[[], None], /) -> None:
            """Call `then` from the loop once everything so far is written."""
            ...

        def finish(self, then: Callable[[], None], /) -> None:
            """Close the screen, and call `then` once everything is written."""
            ...

        def close(self) -> None:
            """Write the rest, and close the screen."""
            ...
