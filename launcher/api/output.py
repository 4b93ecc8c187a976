"""The output of a job in the program: printed, put together to lines, and kept."""

from __future__ import annotations

from .events import Output
from .kept import KeptOutput
from .lines import Lines
from .printer import Printer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Show = Callable[[Output], object]


class JobOutput:
    """Takes the output of a job's ranks, and the messages of dsrun.

    Attributes:
        shows: whether a function of the program is called with output.
    """

    def __init__(self, sink: Show | bool | None, *, lines: bool) -> None:
        """Take output.

        Args:
            sink: True to print it; a function to call with each `Output`; None for neither.
            lines: whether an `Output` is a whole line; otherwise it is as it has come.
        """
        self._show = sink if callable(sink) else None
        self.shows = self._show is not None
        self._printer = Printer() if sink is True else None
        self._lines = Lines() if lines else None
        self._kept = KeptOutput()

    def add(self, rank: int, stream: int, data: bytes) -> list[bytes]:
        """Print and keep what a rank has written; return what is an `Output` each."""
        self._kept.add(rank, stream, data)
        if self._printer is not None:
            self._printer.output(Output(rank, stream, data))
        return [data] if self._lines is None else self._lines.add(rank, stream, data)

    def rest(self) -> list[Output]:
        """Return the lines that have begun, as their ranks are gone."""
        return [] if self._lines is None else self._lines.rest()

    def show(self, output: Output) -> None:
        """Call the function of the program, if there is one."""
        if self._show is not None:
            self._show(output)

    def label(self, message: dict[str, Any]) -> None:
        """Label the lines of a rank that are printed."""
        if self._printer is not None:
            self._printer.label(message["rank"], message["text"], message["streams"])

    def message(self, text: str) -> None:
        """Print a message of dsrun's own."""
        if self._printer is not None:
            self._printer.message(text)

    def end(self, report: str) -> None:
        """Print what is left, and the report."""
        if self._printer is not None:
            self._printer.end(report)

    def text(self, rank: int, stream: int) -> str:
        """Return the newest that a rank has written to its stream."""
        return self._kept.text(rank, stream)
