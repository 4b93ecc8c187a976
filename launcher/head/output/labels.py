"""Puts labels before the lines of worker output, a whole block at a time. Pure.

A Python loop over the lines would cost more than everything else; here one `replace` labels a block
of many lines.
"""

from __future__ import annotations

import re

LONGEST = 64 * 1024
"""Bytes of a line beyond which it is printed in pieces; later pieces have a plus for the bar."""

# Line ends of terminals and of Windows, also doubled.
_ENDS = re.compile(rb"\r+\n")

# What a progress bar overwrites: everything up to the last carriage return within a line.
_OVERWRITTEN = re.compile(rb"[^\n]*\r")

# The patterns below are for terminals only, and are compiled when first used.

# Strings and sequences that do more than colour: they set the title or the clipboard, or move the
# cursor (ECMA-48; xterm's OSC, DCS, APC, PM, SOS). A string ends with its line at the latest.
_SEQUENCE = (
    rb"\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"
    rb"|\x1b\[(?:[0-;]*[ -/]*[@-JL-ln-~]|[<-?][0-?]*[ -/]*[@-~]|0*[1-9:;][0-9:;]*K)"
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)

# What is left may set colours (SGR, `m`) or erase to the end of the line (`K`; other numbers erase
# the label, too), and nothing else: a terminal continues a sequence after a part that was cut out
# of it, or after a control character.
_STRAY = rb"\x1b(?!\[(?:[0-9:;]*m|0*K))"

# The beginning of a sequence, or of a character that may have to be removed, without its end.
_BEGUN = rb"(?:\x1b(?:[ -/]+|\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?)?|\xc2|\xe2[\x80-\xbf]?)\Z"

# Control characters of one byte, except those that progress bars need: \b, \t, \n and \r.
_CONTROLS = bytes({*range(32), 127} - {*b"\b\t\n\r\x1b"})

# In UTF-8: C1 controls (ECMA-48; some terminals treat them like escape sequences) and characters
# that change the direction of text (Unicode TR9: LRE to RLO, LRI to PDI). A first byte without the
# rest is removed as well: removing what is between the two would make the character whole.
_HIDDEN = (
    rb"\xc2(?![\xa0-\xbf])[\x80-\x9f]?"
    rb"|\xe2(?:\x80[\xaa-\xae]|\x81[\xa6-\xa9]|(?![\x80-\xbf]{2}))"
)


class Sanitizer:
    """Removes from a stream what could harm a terminal, and keeps text and colours."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Return what is safe to print; an unfinished sequence is held back until the next call."""
        if self._held or b"\x1b" in data or re.search(_BEGUN, data[-2:]):
            data = self._held + data
            begun = re.search(_BEGUN, data[-LONGEST:])
            cut = len(data) - (len(begun[0]) if begun else 0)
            data, self._held = data[:cut], data[cut:]
            data = re.sub(_STRAY, b"", re.sub(_SEQUENCE, b"", data))
        data = data.translate(None, _CONTROLS)
        return data if data.isascii() else re.sub(_HIDDEN, b"", data)


class Labeller:
    """Splits one stream of one rank into lines, and labels them.

    Attributes:
        carry: the line that has not ended yet, without its label.
        moving: whether a carriage return has overwritten it; the reader of this flag resets it.
    """

    def __init__(self, label: bytes) -> None:
        self.label = label
        self.carry = b""
        self.moving = False
        self._continued = label.replace(b"|", b"+", 1)
        self._piece = False

    def feed(self, data: bytes) -> bytes:
        """Add a block; return the labelled lines that are now whole, each with its line end."""
        return self.labelled(self.split(data))

    def split(self, data: bytes) -> bytes:
        """Add a block; return the lines that are now whole, without labels, with their ends."""
        data = self.carry + data
        cut = data.rfind(b"\n") + 1
        whole, self.carry = data[:cut], data[cut:]
        if b"\r" in whole:
            whole = _OVERWRITTEN.sub(b"", _ENDS.sub(b"\n", whole))
        if b"\r" in self.carry:
            self.carry, self.moving = _latest(self.carry), True
        return whole

    def labelled(self, whole: bytes) -> bytes:
        """Return what `split` has returned with labels, and pieces of an endless line."""
        lines = self._labelled(whole) if whole else b""
        return lines + self._pieces() if len(self.carry) > LONGEST else lines

    @property
    def in_pieces(self) -> bool:
        """Whether a line is printed in pieces: `labelled` must be given what `split` returned."""
        return self._piece or len(self.carry) > LONGEST

    @property
    def unfinished(self) -> bytes:
        """The line that has not ended yet, labelled; its last carriage return is left out."""
        return self._next_label + self.carry.rstrip(b"\r")

    @property
    def _next_label(self) -> bytes:
        return self._continued if self._piece else self.label

    def end(self) -> bytes:
        """Return the last line, which had no line end, with one."""
        line, self.carry = self.carry.rstrip(b"\r"), b""
        return self._labelled(line + b"\n") if line else b""

    def _labelled(self, whole: bytes) -> bytes:
        if not self.label:
            return whole
        first = self._next_label
        self._piece = False
        return first + whole[:-1].replace(b"\n", b"\n" + self.label) + b"\n"

    def _pieces(self) -> bytes:
        """Return the line so far as a piece, so that an endless line does not fill the memory."""
        piece = self._labelled(self.carry + b"\n")
        self.carry, self._piece = b"", True
        return piece


def _latest(carry: bytes) -> bytes:
    """Return what a terminal would show of a line, with its last carriage return."""
    body = carry.rstrip(b"\r")
    return body.rpartition(b"\r")[2] + (b"\r" if len(body) < len(carry) else b"")
