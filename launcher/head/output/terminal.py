"""Writes lines to a terminal, with a live area at the bottom, or to a file or pipe.

On a terminal, the unfinished line of every rank (a progress bar, a prompt) stays at the bottom and
is redrawn in place. A file cannot be redrawn: there, the latest complete state of a progress bar is
written once a second. A line that only lacks its end is written after a second. It continues in
place, or with + in its label after a line of another rank.
"""

from __future__ import annotations

import os
import re

from ...common import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...common.loop import Loop
    from .folded import FoldedLines
    from .labels import Labeller

    Write = Callable[[int, bytes, Callable[[], None] | None], None]
    Key = tuple[int, int]

REDRAW = 0.1
"""Seconds between two redraws of the live area."""

LATEST = 1.0
"""Seconds between two states of a progress bar in a file."""

ROWS = 12
"""Unfinished lines shown at a time."""

LINES = 60
"""Lines above a report that a reader is assumed to have seen."""

KEPT = 16 * 1024
"""Bytes of recent lines that are kept, at least."""

_INVISIBLE = re.compile(rb"\x1b\[[0-9;]*m")


def may_move(colour: str, environ: Mapping[str, str]) -> bool:
    """Return whether to colour a terminal, and to move its cursor to redraw lines.

    Args:
        colour: --color: auto, always or never.
        environ: the variables NO_COLOR (no-color.org) and TERM; a missing TERM counts as `dumb`.
    """
    wanted = colour == "always" or (colour == "auto" and not environ.get("NO_COLOR"))
    return wanted and environ.get("TERM", "dumb") != "dumb"


class Recent:
    """The last printed lines, which a report right below need not repeat."""

    def __init__(self) -> None:
        self._printed: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        """Add whole lines that are being printed."""
        self._printed.append(data)
        self._size += len(data)
        if self._size > 2 * KEPT:
            self._printed = [b"".join(self._printed)[-KEPT:]]
            self._size = KEPT

    def shows(self, lines: list[str]) -> bool:
        """Return whether all these lines, labelled and in this order, are among the latest."""
        text = b"".join(self._printed).decode("utf-8", "replace")
        printed = iter(text.splitlines()[-LINES:])
        return all(any(row.endswith(line) for row in printed) for line in lines)


class StreamOutput:
    """Writes to a file or a pipe, whose width does not matter.

    Attributes:
        folded: the streams in which equal lines of several ranks are shown once.
    """

    def __init__(self, loop: Loop, write: Write, _width: Callable[[], int] = int) -> None:
        self._loop = loop
        self._write = write
        self._waiting: dict[Labeller, tuple[Key, float]] = {}
        self._timer = False
        self._open: dict[int, Labeller] = {}
        self._recent: dict[int, Recent] = {}
        self.folded: Mapping[int, FoldedLines] = {}

    def show(self, stream: int, lines: bytes, written: Callable[[], None] | None) -> None:
        """Write whole lines, after ending a line that was left open by another rank."""
        if lines and (labeller := self._open.pop(stream, None)) and labeller.open:
            labeller.open = False
            lines = b"\n" + lines
        self._recent.setdefault(stream, Recent()).add(lines)
        self._write(stream, lines, written)

    def open_line(self, key: Key, labeller: Labeller) -> None:
        """Keep a rank's unfinished line to show it."""
        if labeller.carry:
            self._waiting[labeller] = key, self._loop.clock()
            self._wake()
        else:
            self._waiting.pop(labeller, None)

    def _wake(self) -> None:
        if not self._timer:
            self._timer = True
            self._loop.call_later(LATEST, self._tick)

    def _tick(self) -> None:
        self._timer = False
        for folded in self.folded.values():
            folded.flush()
        keys = {one: key for one, (key, _) in self._waiting.items()}
        states = {one: state for one in keys if (state := one.state())}
        for stream, text in _once(states, keys, self.folded):
            self.show(stream, text + b"\n", None)
        if not states:
            self._leave_open()
        self._waiting = {one: since for one, since in self._waiting.items() if one.unfinished}
        if self._waiting:
            self._wake()

    def _leave_open(self) -> None:
        """Write the only unfinished line of a stream, if no other line was left open."""
        by_stream: dict[int, list[tuple[Labeller, float]]] = {}
        for labeller, ((_, stream), fed) in self._waiting.items():
            by_stream.setdefault(stream, []).append((labeller, fed))
        for stream, ((labeller, fed), *others) in by_stream.items():
            free = not others and self._open.get(stream, labeller) is labeller
            if free and self._loop.clock() >= fed + LATEST and (text := labeller.part()):
                self._open[stream] = labeller
                self._write(stream, text, None)

    def still_shows(self, stream: int, lines: list[str]) -> bool:
        """Return whether these lines, each behind its label, are among the latest of a stream."""
        return stream in self._recent and self._recent[stream].shows(lines)

    def status(self, text: str) -> None:
        """Do nothing: a file cannot show a status line."""

    def clear(self) -> None:
        """Do nothing: a file cannot be changed."""

    def finish(self, stream: int, labeller: Labeller) -> None:
        """Write the last line of a stream, completed with a line end."""
        if line := labeller.finish():
            self.show(stream, line, None)


class TerminalOutput:
    """Writes to a terminal; `width` returns its number of columns, by default this process's.

    Attributes:
        folded: the streams in which equal lines of several ranks are shown once.
    """

    def __init__(
        self, loop: Loop, write: Write, width: Callable[[], int] = lambda: columns((2, 1))
    ) -> None:
        self._loop = loop
        self._write = write
        self._width = width
        self.folded: Mapping[int, FoldedLines] = {}
        self._lines: dict[Labeller, Key] = {}
        self._status = b""
        self._drawn = 0
        self._timer = False
        self._recent = Recent()

    def show(self, stream: int, lines: bytes, written: Callable[[], None] | None) -> None:
        """Write whole lines above the live area."""
        self._recent.add(lines)
        if not lines:
            self._write(stream, b"", written)
            return
        self._write(stream, self._erased() + lines + self._picture(), written)

    def open_line(self, key: Key, labeller: Labeller) -> None:
        """Keep a rank's unfinished line to show it."""
        if labeller.carry:
            self._lines[labeller] = key
            self._redraw_soon()
        elif self._lines.pop(labeller, None) is not None:
            self._redraw_soon()

    def still_shows(self, _stream: int, lines: list[str]) -> bool:
        """Return whether these lines, each behind its label, are among the latest."""
        return self._recent.shows(lines)

    def status(self, text: str) -> None:
        """Show a status line; "" removes it."""
        self._status = text.encode()
        self._write(2, self._erased() + self._picture(), None)

    def clear(self) -> None:
        """Remove the live area."""
        self._status = b""
        self._lines.clear()
        self._write(2, self._erased(), None)

    def finish(self, stream: int, labeller: Labeller) -> None:
        """Write the last line of a stream, completed with a line end."""
        if line := labeller.finish():
            self.show(stream, line, None)

    def _redraw_soon(self) -> None:
        if not self._timer:
            self._timer = True
            self._loop.call_later(REDRAW, self._redraw)

    def _redraw(self) -> None:
        self._timer = False
        self._write(2, self._erased() + self._picture(), None)

    def _erased(self) -> bytes:
        """Return the sequence that erases the live area (ECMA-48: CUU, ED)."""
        drawn, self._drawn = self._drawn, 0
        up = b"\x1b[%dA" % (drawn - 1) if drawn > 1 else b""
        return b"\r" + up + b"\x1b[J" if drawn else b""

    def _picture(self) -> bytes:
        """Return the live area: the latest unfinished lines and the status, cut to the width."""
        width = self._width()
        texts = {one: one.unfinished for one in self._lines if one.carry}
        newest = _once(texts, self._lines, self.folded)[-ROWS:]
        rows = [_cut(text, width) for _, text in newest]
        rows += [_cut(self._status, width)] if self._status else []
        self._drawn = len(rows)
        return b"\n".join(rows)


def _once(
    texts: Mapping[Labeller, bytes], keys: Mapping[Labeller, Key], folded: Mapping[int, FoldedLines]
) -> list[tuple[int, bytes]]:
    """Return the stream and the labelled text of each line; fold equal lines into one."""
    same: dict[tuple[int, bytes, Labeller | None], list[Labeller]] = {}
    for one, text in texts.items():
        stream = keys[one][1]
        same.setdefault((stream, text, None if stream in folded else one), []).append(one)
    return [
        (stream, group[0].label + text)
        if len(group) == 1
        else (stream, folded[stream].label(sorted({keys[one][0] for one in group})) + text)
        for (stream, text, _), group in same.items()
    ]


def columns(fds: Iterable[int], environ: Mapping[str, str] = os.environ) -> int:
    """Return the width of the first terminal among these; COLUMNS takes precedence."""
    given = environ.get("COLUMNS", "")
    if re.fullmatch("[1-9][0-9]{0,3}", given):
        return int(given)
    for fd in fds:
        try:
            return system.get_terminal_size(fd).columns or 80
        except OSError:
            continue
    return 80


def _cut(line: bytes, width: int) -> bytes:
    """Cut a line to the width of the terminal: a line that wraps could not be erased."""
    text = line.decode("utf-8", "replace")
    if len(_INVISIBLE.sub(b"", line).decode("utf-8", "replace")) < width:
        return line
    hidden = len(text) - len(_INVISIBLE.sub(b"", line).decode("utf-8", "replace"))
    return text[: width - 1 + hidden].encode() + b"\x1b[0m"
