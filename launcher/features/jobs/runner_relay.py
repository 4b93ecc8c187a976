"""Passes a run's output and events on to a caller, which takes the place of a console."""

from __future__ import annotations

from ...common.text import plain
from ...control import frames
from ...head.output.console import LEVELS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from ...head.output.screen import Screen
    from ...head.run.events import RunEvent
    from .runner_server import LocalCaller

REPORT = 3
"""The stream with the report of a rank that calls a function; it is never printed."""


class Relay:
    """A console whose reader is a caller, or that shows the caller only what cannot be printed.

    Attributes:
        on_broken_pipe: called once nobody reads the output; the end of the caller's connection is
            not reported here.
    """

    def __init__(
        self, caller: LocalCaller, level: str = "info", screen: Screen | None = None
    ) -> None:
        """Send everything to a caller; with a screen, output and messages are printed there."""
        self._caller = caller
        self._level = LEVELS.index(level)
        self._screen = screen

    @property
    def on_broken_pipe(self) -> Callable[[], None]:
        """The function that the screen calls when nobody reads its output any longer."""
        return self._screen.on_broken_pipe if self._screen is not None else _nothing

    @on_broken_pipe.setter
    def on_broken_pipe(self, call: Callable[[], None]) -> None:
        if self._screen is not None:
            self._screen.on_broken_pipe = call

    def tell(self, event: RunEvent, role: str = "") -> None:
        """Send an event of the run, or of a role; `feed` sends output when it is read.

        Activity of ranks is for watches only; the end is the answer to the caller.
        """
        kind = type(event).__name__
        if kind not in {"RankOutput", "RanksActive", "JobEnded"}:
            of_role = {"role": role} if role else {}
            self._caller.event({"event": kind, **event._asdict(), **of_role})

    @property
    def has_lost_output(self) -> bool:
        """True if a screen could not print output."""
        return self._screen is not None and self._screen.has_lost_output

    @property
    def folds(self) -> bool:
        """True if the screen should print equal lines of several ranks once."""
        return self._screen is not None and self._screen.folds

    def fold(self, ranks: int, label: Callable[[Sequence[int]], str]) -> None:
        """Let the screen fold lines."""
        if self._screen is not None:
            self._screen.fold(ranks, label)

    def label(self, rank: int, text: str, streams: Collection[int]) -> None:
        """Pass on the labels of these streams of a rank; its other streams are not shown."""
        if self._screen is not None:
            self._screen.label(rank, text, streams)
        else:
            label = {"rank": rank, "text": text, "streams": sorted(streams)}
            self._caller.event({"event": "Label", **label})

    def feed(self, rank: int, stream: int, data: bytes, written: Callable[[], None]) -> None:
        """Send output; `written` is called once the caller has read it, or has disconnected."""
        if self._screen is not None and stream != REPORT:
            self._screen.feed(rank, stream, data, written)
        elif self._caller.open:
            self._caller.chunk(frames.output_body(rank, stream, data), written)
        else:
            written()

    def log(self, text: str, level: str = "info") -> None:
        """Send a message of dsrun's own, if its level is shown."""
        if self._screen is not None:
            self._screen.log(text, level)
        elif self.shows(level):
            self._caller.event({"event": "Log", "level": level, "text": plain(text)})

    def shows(self, level: str) -> bool:
        """Return whether messages of this level are shown."""
        return LEVELS.index(level) >= self._level

    def still_shows(self, lines: list[str]) -> bool:
        """Return whether the screen has just shown these lines of a worker, in this order."""
        return self._screen is not None and self._screen.still_shows(lines)

    def print_report(self, text: str) -> None:
        """Print the report on the screen; a caller gets it with its answer."""
        if self._screen is not None:
            self._screen.print_report(text)

    def status(self, text: str) -> None:
        """Show a status line on the screen; a caller has none."""
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
        if self._screen is not None:
            self._screen.finish(then)
        else:
            then()

    def close(self) -> None:
        """Close the screen; the caller's connection stays open."""
        if self._screen is not None:
            self._screen.close()


def _nothing() -> None:
    """Do nothing."""
