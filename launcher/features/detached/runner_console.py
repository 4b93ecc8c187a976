"""The console of a detached job: the terminal until all workers run, then nobody.

An observer of the run keeps the ranks' output, so no reader ever holds them up.
"""

from __future__ import annotations

from ...common.text import plain
from ...head.output.console import LEVELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...head.output.screen import Screen


class DetachedConsole:
    """Prints dsrun's own messages on a screen, while there is one, and saves them.

    Attributes:
        has_lost_output: False: no output is printed.
        folds: False: there are no lines to fold.
    """

    has_lost_output = folds = False

    def __init__(self, screen: Screen | None, level: str, keep: Callable[[str], None]) -> None:
        """Print messages of this level and above on a screen until `close_screen`; save them."""
        self._keep = keep
        self._screen: Screen | None = screen
        self._level = LEVELS.index(level)

    def close_screen(self, then: Callable[[], None]) -> None:
        """Close the screen, and call `then` from the loop once all is written there."""
        screen, self._screen = self._screen, None
        if screen is None:
            then()
        else:
            screen.finish(then)

    @property
    def on_broken_pipe(self) -> Callable[[], None]:
        """The function that the screen calls when nobody reads its output any longer."""
        return _nothing if self._screen is None else self._screen.on_broken_pipe

    @on_broken_pipe.setter
    def on_broken_pipe(self, call: Callable[[], None]) -> None:
        if self._screen is not None:
            self._screen.on_broken_pipe = call

    def label(self, rank: int, text: str, streams: Collection[int]) -> None:
        """Label nothing: output is not printed here."""

    def fold(self, ranks: int, label: Callable[[Sequence[int]], str]) -> None:
        """Fold no lines."""

    def feed(self, _rank: int, _stream: int, _data: bytes, written: Callable[[], None]) -> None:
        """Discard output: observers have seen it."""
        written()

    def log(self, text: str, level: str = "info") -> None:
        """Print and save a message of dsrun's own, if its level is shown."""
        if not self.shows(level):
            return
        if self._screen is not None:
            self._screen.log(text, level)
        self._keep(plain(text))

    def shows(self, level: str) -> bool:
        """Return whether messages of this level are shown."""
        return LEVELS.index(level) >= self._level

    def still_shows(self, _lines: list[str]) -> bool:
        """Return False: nobody sees these lines of a worker."""
        return False

    def print_report(self, text: str) -> None:
        """Print the report, if there still is a screen."""
        if self._screen is not None:
            self._screen.print_report(text)

    def status(self, text: str) -> None:
        """Show a status line on the screen."""
        if self._screen is not None:
            self._screen.status(text)

    def flush(self, then: Callable[[], None]) -> None:
        """Call `then` once everything so far is written on the screen."""
        if self._screen is not None:
            self._screen.flush(then)
        else:
            then()

    def finish(self, then: Callable[[], None]) -> None:
        """Close the screen, and call `then` once all is written there."""
        self.close_screen(then)

    def close(self) -> None:
        """Close the screen."""
        screen, self._screen = self._screen, None
        if screen is not None:
            screen.close()


def _nothing() -> None:
    """Do nothing."""
