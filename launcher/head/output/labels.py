"""Puts labels before the lines of worker output, a whole block at a time. Pure.

A Python loop over the lines would cost more than everything else; here, one `replace` labels a
block of many lines.
"""

from __future__ import annotations

import re

LONGEST = 64 * 1024
"""Bytes of a line beyond which it is printed in pieces; later pieces have + instead of the bar."""

# The beginning of a UTF-8 character whose rest has not arrived yet.
_CHARACTER = rb"[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2}"
_CUT_OFF = re.compile(rb"(?:%b)\Z" % _CHARACTER)

# The patterns below are for terminals only, and are compiled when first used.

# Strings and sequences that do more than set colours: they set the title or the clipboard, or move
# the
# cursor (ECMA-48; xterm's OSC, DCS, APC, PM, SOS). A string ends with its line at the latest.
_SEQUENCE = (
    rb"\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|\x1b\[(?:[0-;]*[ -/]*[@-JL-ln-~]|[<-?][0-?]*[ -/]*[@-~]|0*[1-9:;][0-9:;]*K)"
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)

# The escapes that remain may set colours (SGR, `m`) or erase to the end of the line (`K`; other
# numbers would also
# erase the label). Anything else is stray: a terminal would continue a sequence after a part that
# was cut out, or after a control character.
_STRAY = rb"\x1b(?!\[(?:[0-9:;]*m|0*K))"

# The beginning of a character, or of a sequence of a usual length, without its end. Of a string,
# only its beginning and a possible beginning of its end affect the bytes that follow.
_BEGUN = (
    rb"(?:(?P<string>\x1b[\]PX^_])[^\x07\x1b\n]*(?P<end>\x1b?)"
    rb"|\x1b(?:[ -/]{1,8}|\[[0-?]{0,99}[ -/]{0,8})?|%b)\Z" % _CHARACTER
)

# Control characters of one byte, except those that progress bars need: \b, \t, \n and \r.
_CONTROLS = bytes({*range(32), 127} - {*b"\b\t\n\r\x1b"})

# C1 controls (ECMA-48; some terminals treat them like escape sequences), in UTF-8 and as bytes that
# are not UTF-8, and characters that change the direction of text (Unicode TR9: LRE to RLO, LRI to
# PDI). Their first byte alone is removed as well: otherwise, removing the bytes after it could make
# the
# character whole.
_HIDDEN = "[\x80-\x9f\udc80-\udc9f\u202a-\u202e\u2066-\u2069\udcc2\udce2]"


class Sanitizer:
    """Removes everything from a stream that could harm a terminal; keeps text and colours."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return the part of a block that is safe to print.

        An unfinished sequence or character is held back until the next call.
        """
        if self._held or b"\x1b" in data or re.search(_BEGUN, data[-3:]):
            data = self._hold(self._held + data)
            data = re.sub(_STRAY, b"", re.sub(_SEQUENCE, b"", data))
        data = data.translate(None, _CONTROLS)
        return data if data.isascii() else _visible(data)

    def _hold(self, data: bytes) -> bytes:
        """Return a block without the unfinished sequence or character at its end."""
        # The last escape may begin the end of a string that the escape before it began.
        escape = data.rfind(b"\x1b", 0, -1)
        begun = re.compile(_BEGUN).search(data, escape if escape >= 0 else max(len(data) - 3, 0))
        if begun is None:
            self._held = b""
            return data
        self._held = begun["string"] + begun["end"] if begun["string"] else begun[0]
        return data[: begun.start()]


class Labeller:
    """Splits one stream of one rank into lines, and labels them. No byte is returned twice.

    A partly returned line continues with + instead of the bar in its label. A
    carriage return discards the line so far, as on a terminal; but if a part of the line has been
    returned, it ends the line.

    Attributes:
        carry: the part of the unfinished line that has not been returned, without its label.
        open: whether the last returned part has no line end; reset by the caller that prints one.
    """

    def __init__(self, label: bytes) -> None:
        self.label = label
        self.carry = b""
        self.open = False
        self._continued = label.replace(b"|", b"+", 1)
        self._part = False
        self._state = b""

    def feed(self, data: bytes) -> bytes:
        """Add a block; return the labelled lines that are now complete, each with its line end."""
        return self.labelled(self.split(data))

    def split(self, data: bytes) -> bytes:
        """Add a block; return the lines that are now complete, without labels, with their ends."""
        data = self.carry + data
        if b"\r" in data:
            return self._overwrite(data.split(b"\n"))
        cut = data.rfind(b"\n") + 1
        self.carry = data[cut:]
        if cut:
            self._state = b""
        return data[:cut]

    def _overwrite(self, lines: list[bytes]) -> bytes:
        """Return the complete lines of a block with carriage returns, as `split` does."""
        if self._part:
            first, _, then = lines[0].partition(b"\r")
            if then := then.lstrip(b"\r"):
                lines[:1] = first, then
        last = lines.pop()
        if lines:
            self._state = b""
        body = last.rstrip(b"\r")
        before, _, latest = body.rpartition(b"\r")
        self._state = _latest(before) or self._state
        self.carry = latest + last[len(body) :][:1]
        return b"".join(_latest(line) + b"\n" for line in lines)

    def labelled(self, whole: bytes) -> bytes:
        """Return the lines from `split` with labels, and pieces of an endless line."""
        lines = self._labelled(whole) if whole else b""
        if len(self.carry) <= LONGEST:
            return lines
        piece = self._labelled(self._take() + b"\n")
        self._part = True
        return lines + piece

    @property
    def in_pieces(self) -> bool:
        """True if a line is printed in pieces: `labelled` must be called after each `split`."""
        return self._part or len(self.carry) > LONGEST

    @property
    def unfinished(self) -> bytes:
        """The unfinished line, without the carriage return at its end."""
        return self.carry.rstrip(b"\r")

    def state(self) -> bytes:
        """Return the latest complete state of a progress bar, without its label, or b""."""
        if self.carry.endswith(b"\r") and not self._part and (state := self.unfinished):
            self.carry, self._state, self._part = b"\r", b"", True
            return state
        state, self._state = self._state, b""
        return state

    def part(self) -> bytes:
        """Return the unfinished line so far, labelled, without a line end; b"" if it is empty."""
        text = self._take()
        if not text:
            return b""
        label = b"" if self.open else self._next_label
        self._part = self.open = True
        return label + text

    def finish(self) -> bytes:
        """Return the last line, completed with a line end."""
        line, self.carry = self.unfinished, b""
        return self._labelled(line + b"\n") if line or self._part else b""

    @property
    def _next_label(self) -> bytes:
        return self._continued if self._part else self.label

    def _take(self) -> bytes:
        """Take the printable part of the unfinished line: whole characters, no carriage return."""
        text = self.unfinished
        if cut := _CUT_OFF.search(text, max(len(text) - 3, 0)):
            text = text[: cut.start()]
        self.carry, self._state = self.carry[len(text) :], b""
        return text

    def _labelled(self, whole: bytes) -> bytes:
        first = self._next_label
        if self.open:
            first, self.open = b"", False
        elif self._part and whole.startswith(b"\n"):  # this completes the part that was returned
            first, whole = self.label, whole[1:]
        self._part = False
        if not self.label or not whole:
            return whole
        return first + whole[:-1].replace(b"\n", b"\n" + self.label) + b"\n"


def _visible(data: bytes) -> bytes:
    """Return text without hidden characters; other bytes that are not UTF-8 stay as they are."""
    text = re.sub(_HIDDEN, "", data.decode("utf-8", "surrogateescape"))
    return text.encode("utf-8", "surrogateescape")


def _latest(line: bytes) -> bytes:
    """Return the part of a line that a terminal would show."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]
