"""The output of a job in the program: printed, joined into lines, and kept."""

from __future__ import annotations

import sys

from ..common.text import own_lines, plain
from ..features.roles.runner_console import role_of
from ..head.output.labels import LONGEST, Labeller, Sanitizer
from .events import Output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    Show = Callable[[Output], object]

LIMIT = 16 << 20
"""Bytes of output that are kept of a job."""


class JobOutput:
    """Takes the output of a job's ranks, and the messages of dsrun.

    Attributes:
        shows: whether a function of the program is called with output.
    """

    def __init__(self, sink: Show | bool | None, *, lines: bool) -> None:
        """Take output.

        Args:
            sink: True to print the output; a function to call with each `Output`; None for neither.
            lines: whether an `Output` is a whole line; otherwise it is a block as it arrived.
        """
        self._show = sink if callable(sink) else None
        self.shows = self._show is not None
        self._printer = Printer() if sink is True else None
        self._lines = BlockLines() if lines else None
        self._kept = KeptOutput()

    def add(self, rank: int, stream: int, data: bytes) -> list[bytes]:
        """Print and keep output of a rank; return the data of each `Output`."""
        self._kept.add(rank, stream, data)
        if self._printer is not None:
            self._printer.output(Output(rank, stream, data))
        return [data] if self._lines is None else self._lines.add(rank, stream, data)

    def rest(self, roles: Collection[int] = (0,)) -> list[Output]:
        """Return the unfinished lines of ranks of these roles, by number: the ranks have ended."""
        return [] if self._lines is None else self._lines.rest(roles)

    def show(self, output: Output) -> None:
        """Call the function of the program, if any."""
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

    def finish(self, report: str) -> None:
        """Print the remaining output, and the report."""
        if self._printer is not None:
            self._printer.finish(report)

    def text(self, rank: int, stream: int) -> str:
        """Return the newest output of a rank on a stream."""
        return self._kept.text(rank, stream)


class KeptOutput:
    """Keeps the newest output of each rank and stream, all together within a limit."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[tuple[int, int], bytearray] = {}

    def add(self, rank: int, stream: int, data: bytes) -> None:
        """Add a block; beyond the limit the longest output loses its older half."""
        self._kept.setdefault((rank, stream), bytearray()).extend(data)
        self._size += len(data)
        while self._size > self._limit:
            longest = max(self._kept.values(), key=len)
            half = (len(longest) + 1) // 2
            cut = longest.find(b"\n", half, -1) + 1 or half
            del longest[:cut]
            self._size -= cut

    def text(self, rank: int, stream: int) -> str:
        """Return the kept output of a rank's stream."""
        return self._kept.get((rank, stream), b"").decode("utf-8", "replace")


class BlockLines:
    """Joins the blocks of each rank and stream into lines, without loss of a byte.

    A carriage return ends a line as well: so each state of a progress bar is one. A line of more
    than `LONGEST` bytes comes in pieces.
    """

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], bytearray] = {}

    def add(self, rank: int, stream: int, data: bytes) -> list[bytes]:
        """Return the lines that this block completes, each with its end."""
        begun = self._begun.setdefault((rank, stream), bytearray())
        may_end = begun.endswith(b"\r") or b"\n" in data or b"\r" in data
        begun += data
        if not may_end and len(begun) <= LONGEST:
            return []
        lines = bytes(begun).splitlines(keepends=True)
        begun.clear()
        # After a carriage return, a line feed may follow.
        if not lines[-1].endswith(b"\n") and len(lines[-1]) <= LONGEST:
            begun += lines.pop()
        return lines

    def rest(self, roles: Collection[int] = (0,)) -> list[Output]:
        """Return the unfinished lines of ranks of these roles, which will not be continued."""
        begun = [key for key in self._begun if role_of(key[0])[0] in roles]
        rest = [(*key, bytes(self._begun.pop(key))) for key in begun]
        return [Output(rank, stream, data) for rank, stream, data in rest if data]


class Printer:
    """Labels the lines of the ranks like the command, and prints them like the program.

    In a notebook they therefore appear in the cell.
    """

    def __init__(self) -> None:
        """Print nothing yet; `label` says which streams of a rank are shown."""
        self._labellers: dict[tuple[int, int], Labeller] = {}
        self._sanitizers: dict[tuple[int, int], Sanitizer] = {}

    def label(self, rank: int, text: str, streams: Sequence[int]) -> None:
        """Show these streams of a rank, with `text` before each line, and no others."""
        for stream in (1, 2):
            if before := self._labellers.pop((rank, stream), None):
                show(stream, before.finish())
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

    def finish(self, report: str) -> None:
        """Print lines without a line end, and the report."""
        for (_, stream), labeller in self._labellers.items():
            show(stream, labeller.finish())
        show(2, f"{plain(report)}\n".encode("utf-8", "replace") if report else b"")


def show(stream: int, data: bytes) -> None:
    """Write to the present `sys.stdout` or `sys.stderr`; without one, do nothing."""
    file = sys.stdout if stream == 1 else sys.stderr
    if data and file is not None:
        file.write(data.decode("utf-8", "replace"))
        file.flush()
