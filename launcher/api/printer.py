"""Prints the output of a job where the program prints its own: in a notebook, in the cell."""

from __future__ import annotations

import sys

from ..common.text import own_lines, plain
from ..head.output.labels import Labeller, Sanitizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from .events import Output


class Printer:
    """Labels the lines of the ranks as the command does, and prints them."""

    def __init__(self) -> None:
        """Print nothing yet; `label` says which streams of a rank are shown."""
        self._labellers: dict[tuple[int, int], Labeller] = {}
        self._sanitizers: dict[tuple[int, int], Sanitizer] = {}

    def label(self, rank: int, text: str, streams: Sequence[int]) -> None:
        """Show these streams of a rank, with `text` before each line, and no others."""
        for stream in (1, 2):
            if before := self._labellers.pop((rank, stream), None):
                show(stream, before.end())
        for stream in streams:
            self._labellers[rank, stream] = Labeller(text.encode("utf-8", "surrogateescape"))
            self._sanitizers[rank, stream] = Sanitizer()

    def output(self, event: Output) -> None:
        """Print the lines that some output completes."""
        place = event.rank, event.stream
        labeller = self._labellers.get(place)
        if labeller is not None:
            show(event.stream, labeller.feed(self._sanitizers[place].feed(event.data)))

    def message(self, text: str) -> None:
        """Print a message of dsrun's own."""
        show(2, own_lines(text).encode("utf-8", "replace"))

    def end(self, report: str) -> None:
        """Print lines without a line end, and the report."""
        for (_, stream), labeller in self._labellers.items():
            show(stream, labeller.end())
        show(2, f"{plain(report)}\n".encode("utf-8", "replace") if report else b"")


def show(stream: int, data: bytes) -> None:
    """Write to what is `sys.stdout` or `sys.stderr` now; without one, nowhere."""
    file = sys.stdout if stream == 1 else sys.stderr
    if data and file is not None:
        file.write(data.decode("utf-8", "replace"))
        file.flush()
