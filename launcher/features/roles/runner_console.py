"""The console of one role, which prints on the console of the whole job."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...head.output.screen import Screen

APART = 10_000_001
"""The distance between the first numbers of two roles: the console identifies all workers by
numbers, and colours their labels by these."""


def role_of(number: int) -> tuple[int, int]:
    """Return the number of the role, and the rank there, for a worker's number on the console."""
    return divmod(number, APART)


class RoleConsole:
    """The console of the job of one role.

    It is never closed, and prints no report: both happen once for all roles.

    Attributes:
        on_broken_pipe: never called here; the console of the whole job has its own.
        folds: whether equal lines of several ranks are printed once; never.
    """

    folds = False

    def __init__(self, console: Screen, name: str, number: int) -> None:
        """Print for the role with this name, and with this number among the roles."""
        self._console = console
        self._name = name
        self._first = number * APART
        self.on_broken_pipe: Callable[[], None] = _nothing

    @property
    def has_lost_output(self) -> bool:
        """True if standard output could not be written."""
        return self._console.has_lost_output

    def fold(self, ranks: int, label: Callable[[Sequence[int]], str]) -> None:
        """Print every line of each rank."""

    def label(self, rank: int, text: str, streams: Collection[int]) -> None:
        """Print these streams of a rank, and no others, with this label."""
        self._console.label(self._first + rank, text, streams)

    def feed(self, rank: int, stream: int, data: bytes, written: Callable[[], None]) -> None:
        """Print output of a rank; call `written` once the output is written."""
        self._console.feed(self._first + rank, stream, data, written)

    def log(self, text: str, level: str = "info") -> None:
        """Print a message about the role."""
        self._console.log(f"{self._name}: {text}", level)

    def shows(self, level: str) -> bool:
        """Return whether messages of this level are printed."""
        return self._console.shows(level)

    def status(self, text: str) -> None:
        """Show a status line, in place of any other role's."""
        self._console.status(text)

    def still_shows(self, _lines: list[str]) -> bool:
        """Return False: no report is printed right below these lines."""
        return False

    def print_report(self, _text: str) -> None:
        """Print nothing: the report of the job includes the role's report."""

    def flush(self, then: Callable[[], None]) -> None:
        """Call `then` once all output so far is written."""
        self._console.flush(then)

    finish = flush

    def close(self) -> None:
        """Leave the console open."""


def _nothing() -> None:
    """Do nothing."""
