"""The console: the workers' lines, progress bars, and dsrun's own messages."""

from __future__ import annotations

import errno
import os
from functools import partial

from ...common import system
from ...common.text import own_lines, plain
from .labels import Labeller, Sanitizer
from .terminal import StreamOutput, TerminalOutput, columns, may_move
from .writer import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from ...common.loop import Loop
    from .folded import FoldedLines

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
"""SGR codes of the labels of successive ranks."""

LEVELS = ("debug", "info", "warning", "error", "critical")

OWN = (1, 2)
"""The descriptors of this process's own standard output and standard error."""

LAST_WRITE = 1.0
"""Seconds for a stalled reader to read the rest at the end of the job."""


class Console:
    """Prints all output of one job.

    A worker's standard output goes to dsrun's standard output, and its standard error to dsrun's
    standard error.

    Attributes:
        on_broken_pipe: called from the loop when nobody reads the output any longer.
    """

    def __init__(
        self,
        loop: Loop,
        *,
        colour: str = "auto",
        level: str = "info",
        fold: str = "auto",
        fds: tuple[int, int] = OWN,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Open both streams, for `--color`, `--log_level`, and the environment of the user.

        `fold`, as in `OutputPolicy`, has an effect once the method `fold` is called. `fds` are the
        standard output and error; descriptors of another process are closed at the end.
        """
        self._loop = loop
        self._level = LEVELS.index(level)
        self.on_broken_pipe: Callable[[], None] = _nothing
        loop.open_to_threads()
        self._failures: dict[int, int] = {}
        self._told: set[int] = set()
        self._sinks = _sinks(*fds)
        given = {1: fds[0], 2: fds[1]}
        owned = fds != OWN
        used = sorted({*self._sinks.values()})
        self._writers = {one: Writer(given[one], self._failed(one), owned=owned) for one in used}
        self._unused = fds[1] if fds != OWN and 2 not in self._writers else -1
        sinks = self._sinks.items()
        self._terminals = {stream: system.isatty(given[sink]) for stream, sink in sinks}
        moves = may_move(colour, environ)
        always = colour == "always"
        self._coloured = {one: always or (has and moves) for one, has in self._terminals.items()}
        screen = TerminalOutput if moves and all(self._terminals.values()) else StreamOutput
        self._width = partial(columns, fds[::-1], environ)
        self._screen = screen(loop, self._write, self._width)
        self._labellers: dict[tuple[int, int], Labeller] = {}
        self._sanitizers: dict[tuple[int, int], Sanitizer] = {}
        self._painted = False
        self._may_fold = self._folding(fold)
        self._folded: dict[int, FoldedLines] = {}

    def label(self, rank: int, text: str, streams: Collection[int]) -> None:
        """Print these streams (1, 2) of a rank, with `text` before each line, and no others."""
        for stream in self._sinks:
            if before := self._labellers.pop((rank, stream), None):
                self._flush_folded()
                self._screen.finish(self._sinks[stream], before)
        for stream in streams:
            self._labellers[rank, stream] = Labeller(self._in_colour(rank, text, stream))
            self._sanitizers[rank, stream] = Sanitizer()

    def _folding(self, fold: str) -> set[int]:
        return {
            sink
            for stream, sink in self._sinks.items()
            if fold == "always" or (fold == "auto" and self._terminals[stream])
        }

    @property
    def folds(self) -> bool:
        """True if equal lines of several ranks are printed once."""
        return bool(self._may_fold)

    def fold(self, ranks: int, label: Callable[[Sequence[int]], str]) -> None:
        """Fold lines from now on, for this number of ranks; `label` returns a joint label."""
        self._flush_folded()
        self._folded.clear()
        self._screen.folded = self._folded
        if ranks < 2:
            return
        from .folded import FoldedLines

        for sink in self._may_fold:
            named = partial(self._joint_label, label, sink)
            self._folded[sink] = FoldedLines(self._loop, ranks, named, partial(self._show, sink))

    def _joint_label(
        self, label: Callable[[Sequence[int]], str], stream: int, ranks: Sequence[int]
    ) -> bytes:
        return self._in_colour(ranks[0], label(ranks), stream)

    def _in_colour(self, rank: int, text: str, stream: int) -> bytes:
        if text and self._coloured[stream]:
            text = f"\x1b[{COLOURS[rank % len(COLOURS)]}m{text}\x1b[0m"
        return text.encode("utf-8", "surrogateescape")

    def feed(self, rank: int, stream: int, data: bytes, written: Callable[[], None]) -> None:
        """Print output of a rank; `written` is called from the loop when it has been written."""
        labeller = self._labellers.get((rank, stream))
        if labeller is None:
            written()
            return
        if self._terminals[stream]:
            data = self._sanitizers[rank, stream].feed(data)
            self._painted = self._painted or b"\x1b" in data
        sink, lines = self._sinks[stream], labeller.split(data)
        folded = self._folded.get(sink)
        if folded is not None and not labeller.in_pieces:
            folded.add(rank, lines, written)
        else:
            if folded is not None:
                folded.flush()
            self._show(sink, labeller.labelled(lines), (written,))
        self._screen.open_line((rank, sink), labeller)

    def _show(self, sink: int, lines: bytes, written: Sequence[Callable[[], None]]) -> None:
        """Print labelled lines, and then call functions from the loop."""
        self._screen.show(sink, lines, partial(self._post, written))

    def _post(self, written: Sequence[Callable[[], None]]) -> None:
        for call in written:
            self._loop.call_soon_threadsafe(call)

    def _flush_folded(self) -> None:
        """Print the lines that wait for equal ones of other ranks."""
        for folded in self._folded.values():
            folded.flush()

    def log(self, text: str, level: str = "info") -> None:
        """Print a message of dsrun on standard error, if its level is shown."""
        if self.shows(level):
            self._show_own(own_lines(text))

    def shows(self, level: str) -> bool:
        """Return whether messages of this level are printed."""
        return LEVELS.index(level) >= self._level

    def still_shows(self, lines: list[str]) -> bool:
        """Return whether these lines of a worker stand, in this order, right above a report."""
        self._finish_lines()
        return self._screen.still_shows(self._sinks[2], lines)

    def print_report(self, text: str) -> None:
        """Print the report of a job, at every log level."""
        self._finish_lines()
        self._show_own(f"{plain(text)}\n")

    def _show_own(self, block: str) -> None:
        """Print text of dsrun; on a terminal, first reset a colour that a rank left on."""
        self._flush_folded()
        if self._terminals[2]:
            from ...common.wrap import wrapped

            block = wrapped(block, self._width())
        if self._painted and self._terminals[2]:
            block, self._painted = f"\x1b[0m{block}", False
        self._screen.show(self._sinks[2], block.encode("utf-8", "replace"), None)

    def _finish_lines(self) -> None:
        """Print the last line of every stream that lacks its line end."""
        self._flush_folded()
        for (_, stream), labeller in self._labellers.items():
            self._screen.finish(self._sinks[stream], labeller)

    def status(self, text: str) -> None:
        """Show a status line, on a terminal only; "" removes it."""
        self._screen.status(plain(text) if self._level <= 1 else "")

    def close(self) -> None:
        """Print lines without a line end, and wait at most `LAST_WRITE` seconds for all writes.

        The loop has ended, so a failure of the last write is reported here.
        """
        self._print_rest()
        for sink in sorted(self._writers):
            self._writers[sink].close(LAST_WRITE)
            if self._failures.get(sink, errno.EPIPE) != errno.EPIPE:
                self._on_failure(sink, self._failures[sink])

    @property
    def has_lost_output(self) -> bool:
        """True if standard output could not be written although its reader may still be there."""
        return self._failures.get(1, errno.EPIPE) != errno.EPIPE

    def finish(self, then: Callable[[], None]) -> None:
        """Close without waiting: `then` is called from the loop once everything is written."""
        self._print_rest()
        self.flush(then)
        for writer in self._writers.values():
            writer.close(0.0)

    def flush(self, then: Callable[[], None]) -> None:
        """Call `then` once everything so far is written, or after `LAST_WRITE` seconds."""
        self._flush_folded()
        unwritten = {*self._writers}

        def wrote(sink: int) -> None:
            if sink in unwritten:
                unwritten.discard(sink)
                if not unwritten:
                    timer.cancel()
                    then()

        def cancel() -> None:
            unwritten.clear()
            then()

        timer = self._loop.call_later(LAST_WRITE, cancel)
        for sink, writer in self._writers.items():
            told = partial(wrote, sink)
            writer.put(b"", partial(self._loop.call_soon_threadsafe, told))

    def _print_rest(self) -> None:
        self._screen.clear()
        self._finish_lines()
        if self._unused >= 0:
            system.close(self._unused)

    def _write(self, stream: int, data: bytes, written: Callable[[], None] | None) -> None:
        self._writers[stream if stream in self._writers else 1].put(data, written)

    def _failed(self, stream: int) -> Callable[[int], None]:
        def failed(number: int) -> None:
            self._failures[stream] = number
            self._loop.call_soon_threadsafe(lambda: self._on_failure(stream, number))

        return failed

    def _on_failure(self, stream: int, number: int) -> None:
        name = {1: "standard output", 2: "standard error"}[stream]
        if number == errno.EPIPE:
            self.on_broken_pipe()
        elif self._sinks[2] != stream and stream not in self._told:
            self._told.add(stream)
            why = os.strerror(number)
            self.log(f"cannot write to {name} ({why}); continuing without it", "warning")


def _sinks(out: int, err: int) -> dict[int, int]:
    """Return the writer of each stream: one for both if they are one file, to keep the order."""
    try:
        same = system.sameopenfile(out, err)
    except OSError:
        same = False
    return {1: 1, 2: 1 if same else 2}


def _nothing() -> None:
    """Do nothing."""
