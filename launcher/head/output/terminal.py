"""Writes lines to a terminal, with a live area at the bottom, or to a file or pipe.

On a terminal the unfinished line of every rank (a progress bar, a prompt) stays at the bottom and
is redrawn in place. A file cannot be redrawn: there, a progress bar is written at most once a
second. A line that only waits for its end is written after a second, and continued if no other
line has come between.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...common.loop import Loop
    from .folded import Folded
    from .labels import Labeller

    Write = Callable[[int, bytes, Callable[[], None] | None], None]
    Key = tuple[int, int]

REDRAW = 0.1
"""Seconds between two redraws of the live area."""

LATEST = 1.0
"""Seconds between two states of one progress bar in a file."""

ROWS = 12
"""Unfinished lines shown at a time."""

_INVISIBLE = re.compile(rb"\x1b\[[0-9;]*m")


def may_move(colour: str, environ: Mapping[str, str]) -> bool:
    """Return whether to colour a terminal, and to move its cursor to redraw lines.

    Args:
        colour: --color: auto, always or never.
        environ: for NO_COLOR (no-color.org) and TERM; a missing TERM is treated as `dumb`.
    """
    wanted = colour == "always" or (colour == "auto" and not environ.get("NO_COLOR"))
    return wanted and environ.get("TERM", "dumb") != "dumb"


class StreamOutput:
    """Writes to a file or a pipe, whose width does not matter.

    Attributes:
        folded: the streams in which the same line of several ranks is shown once.
    """

    def __init__(self, loop: Loop, write: Write, _width: Callable[[], int] = int) -> None:
        self._loop = loop
        self._write = write
        self._waiting: dict[Key, Labeller] = {}
        self._timer = False
        self._open: dict[int, bytes] = {}
        self.folded: Mapping[int, Folded] = {}

    def show(self, stream: int, lines: bytes, written: Callable[[], None] | None) -> None:
        """Write whole lines."""
        if lines and stream in self._open:
            lines = self._continued(self._open.pop(stream), lines)
        self._write(stream, lines, written)

    def _continued(self, shown: bytes, lines: bytes) -> bytes:
        """Continue the line that was written without an end, or end it if another line comes."""
        return lines[len(shown) :] if lines.startswith(shown) else b"\n" + lines

    def open_line(self, key: Key, labeller: Labeller) -> None:
        """Keep a rank's unfinished line to show it."""
        if not labeller.carry:
            self._waiting.pop(key, None)
            return
        self._waiting[key] = labeller
        if not self._timer:
            self._timer = True
            self._loop.call_later(LATEST, self._tick)

    def _tick(self) -> None:
        self._timer = False
        waiting, self._waiting = self._waiting, {}
        for folded in self.folded.values():
            folded.settle()
        moving = {key: one for key, one in waiting.items() if one.moving}
        for stream, text in _unfinished(moving, self.folded):
            self.show(stream, text + b"\n", None)
        for labeller in moving.values():
            labeller.moving = False
        if len(waiting) == 1 and not moving:
            (((_, stream), labeller),) = waiting.items()
            if stream not in self._open:
                self._open[stream] = labeller.unfinished
                self._write(stream, self._open[stream], None)

    def status(self, text: str) -> None:
        """Do nothing: a file cannot show a status line."""

    def clear(self) -> None:
        """Do nothing: what was written to a file stays."""

    def finish(self, stream: int, labeller: Labeller) -> None:
        """Write the last line of a stream, which had no line end, with one."""
        if line := labeller.end():
            self.show(stream, line, None)


class TerminalOutput:
    """Writes to a terminal; `width` returns how many columns it has, by default this process's.

    Attributes:
        folded: the streams in which the same line of several ranks is shown once.
    """

    def __init__(
        self, loop: Loop, write: Write, width: Callable[[], int] = lambda: columns((2, 1))
    ) -> None:
        self._loop = loop
        self._write = write
        self._width = width
        self.folded: Mapping[int, Folded] = {}
        self._lines: dict[Key, Labeller] = {}
        self._status = b""
        self._drawn = 0
        self._timer = False

    def show(self, stream: int, lines: bytes, written: Callable[[], None] | None) -> None:
        """Write whole lines above the live area."""
        if not lines:
            self._write(stream, b"", written)
            return
        self._write(stream, self._erased() + lines + self._picture(), written)

    def open_line(self, key: Key, labeller: Labeller) -> None:
        """Keep a rank's unfinished line to show it."""
        if labeller.carry:
            self._lines[key] = labeller
            self._redraw_soon()
        elif self._lines.pop(key, None) is not None:
            self._redraw_soon()

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
        """Write the last line of a stream, which had no line end, with one."""
        if line := labeller.end():
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
        newest = _unfinished(self._lines, self.folded)[-ROWS:]
        rows = [_cut(text, width) for _, text in newest]
        rows += [_cut(self._status, width)] if self._status else []
        self._drawn = len(rows)
        return b"\n".join(rows)


def _unfinished(
    lines: Mapping[Key, Labeller], folded: Mapping[int, Folded]
) -> list[tuple[int, bytes]]:
    """Return stream and text of unfinished lines; where lines are folded, equal ones once."""
    same: dict[tuple[int, bytes], list[int]] = {}
    for (rank, stream), one in lines.items():
        if one.carry:
            what = one.carry.rstrip(b"\r") if stream in folded else b"%d" % rank
            same.setdefault((stream, what), []).append(rank)
    return [
        (stream, lines[ranks[0], stream].unfinished)
        if len(ranks) == 1
        else (stream, folded[stream].label(sorted(ranks)) + text)
        for (stream, text), ranks in same.items()
    ]


def columns(fds: Iterable[int], environ: Mapping[str, str] = os.environ) -> int:
    """Return the width of the first terminal among these; COLUMNS overrides its own."""
    given = environ.get("COLUMNS", "")
    if re.fullmatch("[1-9][0-9]{0,3}", given):
        return int(given)
    for fd in fds:
        try:
            return os.get_terminal_size(fd).columns or 80
        except OSError:
            continue
    return 80


def _cut(line: bytes, width: int) -> bytes:
    """Cut to the width of the terminal; a line that wraps could not be erased."""
    text = line.decode("utf-8", "replace")
    if len(_INVISIBLE.sub(b"", line).decode("utf-8", "replace")) < width:
        return line
    hidden = len(text) - len(_INVISIBLE.sub(b"", line).decode("utf-8", "replace"))
    return text[: width - 1 + hidden].encode() + b"\x1b[0m"
