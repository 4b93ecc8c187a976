"""What a program has said last: the exception that ended it, and its last lines. Pure."""

from __future__ import annotations

import re

from ...common.text import plain
from ...common.values import NamedTuple
from .row import said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 60
"""Last lines that are looked at for anything but an exception."""

MOST = 250
"""Last lines in which an exception is looked for."""

AFTER, AFTER_CODE = 12, 3
"""Lines that may follow an exception which has ended the program; the second number is for an exit
code that Python does not choose itself."""

ABORTED = (-6, 134)
"""How programs end that C++ ends because of an exception: by SIGABRT."""

LONGEST = 4000
"""Characters of an exception's message that are looked at."""

# What torch, torchrun and exception groups put before each line.
_PREFIX = re.compile(r"^(?:\[(?:rank|default)?\d+\]:? ?|(?: *[|+] )+)")

# A frame of a traceback, or the place of a syntax error; faulthandler's frames have no comma there.
_FRAME = re.compile(r'^( *)File "(.*)", line (\d+)(?:, in .*)?$')

_BOX_END = "\u2570\u2500"
"""The last line of a traceback as rich draws it."""

_EXCEPTION = re.compile(r"^ *(?:\w+\.)*([A-Za-z_]\w*)(?::(?: .*)?)?$")

_TERMINATE = re.compile(r"terminate called after throwing an instance of '(?:\w+::)*(\w+)")

_CONTEXT = said("During handling of the above exception")
"""What stands between an exception and the next one, of which it need not be the cause."""

_LINKS = said("The above exception was the direct cause", "Original Traceback", "-- Process ")
"""What stands between an exception and one that is its cause, or the same."""

_HARMLESS = said("Exception ignored in", "--- Logging error ---", "Exception in thread")
"""What stands before a traceback that ends nothing."""

_NOISE = said(
    *("frame #", "Exception raised from", "C++ CapturedTraceback", "[W", "[E", "[I", "#"),
    *("CUDA kernel errors might", "For debugging consider", "Compile with `TORCH_USE_CUDA_DSA`"),
)
"""How lines begin that libraries print after an exception."""


class Raised(NamedTuple):
    """An exception.

    Attributes:
        name: of its class, without the module.
        text: the line that shows it, and those of its message that follow.
        place: where it was raised, such as `train.py:12`; "" if not known.
        certain: whether it ended the program, or is the cause of what did. Else it had been raised
            before, and was being handled.
    """

    name: str
    text: str
    place: str
    certain: bool = True


class LastWords(NamedTuple):
    """What a program has said last.

    Attributes:
        raised: the exception that ended it, then those that belong to it, the nearest first.
        lines: its last lines.
    """

    raised: tuple[Raised, ...]
    lines: tuple[str, ...]


def last_words(text: str, code: int) -> LastWords:
    """Return what a program has said last, given its exit code."""
    lines = _clean(text)
    kept = tuple(line for line in lines[-LINES:] if line.strip())
    allowed = AFTER if code in {1, 255, *ABORTED} else AFTER_CODE
    native = _terminated(lines) if code in ABORTED else ()
    return LastWords((*native, *_raised(lines, allowed)), kept)


def _clean(text: str) -> list[str]:
    """Return lines without colours, overwritten parts and prefixes."""
    lines = text.rstrip().split("\n")[-MOST:]
    shown = [line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line for line in lines]
    return [_PREFIX.sub("", line) for line in plain("\n".join(shown)).split("\n")]


def _raised(lines: Sequence[str], allowed: int) -> tuple[Raised, ...]:
    ends = _ends(lines)
    if not ends or _unrelated(lines[ends[-1][1] + 1 :]) > allowed:
        return ()
    found, certain = [_exception(lines, *ends[-1], len(lines))], True
    for (frame, end), (later, _) in zip(reversed(ends[:-1]), reversed(ends[1:]), strict=True):
        between = lines[end:later]
        shown = [line.lstrip() for line in between]
        if any(line.startswith(_CONTEXT) for line in shown):
            certain = False
        elif not any(line.startswith(_LINKS) for line in shown):
            break
        found.append(_exception(lines, frame, end, later)._replace(certain=certain))
    return tuple(found)


def _terminated(lines: Sequence[str]) -> tuple[Raised, ...]:
    """Return the exception of C++ that has ended a program."""
    for at in reversed(range(len(lines))):
        if match := _TERMINATE.match(lines[at]):
            text = "\n".join(lines[at + 1 :])[:LONGEST].strip()
            return (Raised(match[1], text.removeprefix("what():").strip() or match[1], ""),)
    return ()


def _ends(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return the last frame of each traceback, and the line of its exception."""
    found: list[tuple[int, int]] = []
    frame = -1
    indent = 0
    harmless = False
    for at, line in enumerate(lines):
        if line.startswith(_HARMLESS):
            harmless = True
        elif match := _FRAME.match(line):
            frame, indent = at, len(match[1])
        elif line.startswith(_BOX_END):
            frame, indent = at, 1
        elif frame >= 0 and line.strip() and len(line) - len(line.lstrip()) < indent:
            if not harmless and _EXCEPTION.match(line):
                found.append((frame, at))
            frame, harmless = -1, False
    return found


def _exception(lines: Sequence[str], frame: int, end: int, limit: int) -> Raised:
    match, where = _EXCEPTION.match(lines[end]), _FRAME.match(lines[frame])
    text = "\n".join(lines[end:limit])[:LONGEST].strip()
    place = f"{where[2].rpartition('/')[2]}:{where[3]}" if where else ""
    return Raised(match[1] if match else "", text, place)


def _unrelated(lines: Sequence[str]) -> int:
    """Return how many lines belong neither to a message nor to what libraries print at the end."""
    return sum(bool(line.strip()) and not line.startswith((" ", "\t", *_NOISE)) for line in lines)
