"""The last words of a program: the exception that ended it, and its last lines. Pure."""

from __future__ import annotations

import re

from ...common.records import NamedTuple
from ...common.text import plain
from .runner_row import said

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LINES = 60
"""Number of last lines searched for anything but an exception."""

MOST = 250
"""Number of last lines searched for an exception."""

AFTER, AFTER_CODE = 12, 3
"""Lines that may follow an exception which has ended the program; the second number is for an exit
code that Python does not choose itself."""

ABORTED = (-6, 134)
"""Exit codes of programs ended by a C++ exception, through SIGABRT."""

LONGEST = 4000
"""Characters of an exception's message that are looked at."""

# Prefixes of each line by `srun -l` and `mpirun --tag-output`, then by torch, torchrun and
# exception groups.
_PREFIX = re.compile(
    r"^(?: *\d+: |\[\d+,\d+\]<std(?:out|err)>: ?)?(?:\[(?:rank|default)?\d+\]:? ?|(?: *[|+] )+)?"
)

(_TRACEBACK,) = said("Traceback (most recent call last)")

LONGEST_PREFIX, MOST_PREFIXES = 200, 8
"""Characters and number of prefixes by other programs on each line of a traceback."""

# A frame of a traceback, or the place of a syntax error; faulthandler's frames have no comma there.
_FRAME = re.compile(r'^( *)File "(.*)", line (\d+)(?:, in .*)?$')

_BOX_END = "\u2570\u2500"
"""The last line of a traceback in rich's form."""

_EXCEPTION = re.compile(r"^ *(?:\w+\.)*([A-Za-z_]\w*)(?::(?: .*)?)?$")

_TERMINATE = re.compile(r"terminate called after throwing an instance of '(?:\w+::)*(\w+)")

_CONTEXT = said("During handling of the above exception")
"""The text between an exception and the next one, whose cause may be another."""

_LINKS = said("The above exception was the direct cause", "Original Traceback", "-- Process ")
"""The text between an exception and the one that it causes, or a copy."""

_HARMLESS = said("Exception ignored in", "--- Logging error ---", "Exception in thread")
"""The text before a traceback that ends nothing."""

_NOISE = said(
    *("frame #", "Exception raised from", "C++ CapturedTraceback", "[W", "[E", "[I", "#"),
    *("CUDA kernel errors might", "For debugging consider", "Compile with `TORCH_USE_CUDA_DSA`"),
    "Search for `cudaError",
)
"""Beginnings of lines that libraries print after an exception."""

_CHATTER = said("wandb: ", " NCCL INFO ", "torch.distributed.elastic", "torch/distributed/elastic/")
"""Texts in lines that tell nothing about a failure, however many follow it."""

# Exceptions by which a program that starts others only reports the failure of one.
_OF_ANOTHER = re.compile(
    r"^ *(?:(?:\w+\.)*ChildFailedError:|RuntimeError: Engine core initialization failed)"
)

# An exception without its traceback, perhaps after the prefix of a log.
_BARE = re.compile(
    r"^(?:[(\[].{0,150}\bERROR\b.{0,80}\] )?((?:\w+\.)*(\w*(?:Error|Exception)): .+)"
)

(_ACCOUNT,) = said("Last error:")
"""The text before the last line of an exception of NCCL."""

_INTERFACE = said("NCCL_SOCKET_IFNAME set ")
"""The words about a failure in a line that otherwise tells nothing."""

_STARTERS = ("accelerate/commands/launch.py", "torch/distributed/launch.py")
"""The places where `accelerate launch` and torch.distributed.launch raise a CalledProcessError
about their script."""


class RaisedException(NamedTuple):
    """An exception.

    Attributes:
        name: the name of its class, without the module.
        text: the line that shows it, and the lines of its message that follow.
        place: the place where it was raised, such as `train.py:12`; "" if unknown.
        certain: whether it ended the program, or is the cause of the exception that did. Otherwise
            it had been raised before, and was being handled.
    """

    name: str
    text: str
    place: str
    certain: bool = True


class LastWords(NamedTuple):
    """The last words of a program.

    Attributes:
        raised: the exception that ended it, then related ones, nearest first.
    """

    raised: tuple[RaisedException, ...]
    lines: tuple[str, ...]


def last_words(text: str, code: int) -> LastWords:
    """Return the last words of a program, given its output and exit code."""
    whole = _clean(text)
    lines = _own(whole)
    kept = tuple(line for line in lines if line.strip() and not _is_chatter(line))[-LINES:]
    allowed = AFTER if code in {1, 255, *ABORTED} else AFTER_CODE
    native = _terminated(lines) if code in ABORTED else ()
    return LastWords((*native, *(_raised(lines, allowed) or _raised(whole, allowed))), kept)


def bare(lines: Sequence[str]) -> RaisedException | None:
    """Return the exception in a program's last lines, without its traceback."""
    if any(_TRACEBACK in line or line.startswith(_HARMLESS) for line in lines):
        return None  # one that has ended nothing, or long ago
    shown = [line for line in lines if not _is_noise(line)]
    accounted = len(shown) > 1 and shown[-2].startswith(_ACCOUNT)
    first = -4 if accounted else -1
    for at, line in enumerate(shown[first:], first):
        if match := _BARE.match(line):
            text = "\n".join((match[1], *shown[len(shown) + at + 1 :]))
            return RaisedException(match[2], text[:LONGEST], "")
    return None


def _clean(text: str) -> list[str]:
    """Return lines without colours, overwritten parts and prefixes."""
    lines = text.rstrip().split("\n")[-MOST:]
    shown = [line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line for line in lines]
    return _unprefixed([_PREFIX.sub("", line) for line in plain("\n".join(shown)).split("\n")])


def _unprefixed(lines: list[str]) -> list[str]:
    """Return lines without the text before a traceback's first line, such as a date."""
    before = (line.partition(_TRACEBACK)[0] for line in lines if _TRACEBACK in line)
    forms = {_form(one) for one in before if _is_prefix(one)}
    if not forms:
        return lines
    longest = sorted(forms, key=len, reverse=True)[:MOST_PREFIXES]
    prefix = re.compile("|".join(longest))
    return [line[match.end() :] if (match := prefix.match(line)) else line for line in lines]


def _is_prefix(text: str) -> bool:
    """Return whether another program put this before lines; torch writes `Original`."""
    return text.strip() not in {"", "Original"} and len(text) <= LONGEST_PREFIX


def _form(prefix: str) -> str:
    """Return a regular expression for a prefix with any numbers; an empty line lacks its space."""
    known = re.sub(r"\d+", r"\\d+", re.escape(prefix.rstrip(" ")))
    return f"{known}(?: |$)" if prefix.endswith(" ") else known


def _own(lines: list[str]) -> list[str]:
    """Return lines up to the point where another program reports the failure of an earlier one."""
    for frame, end in reversed(_ends(lines)):
        if not _is_of_another(lines, frame, end):
            break
        begin = frame
        while begin and not lines[begin].startswith(_TRACEBACK):
            begin -= 1
        lines = lines[:begin]
    return lines


def _is_of_another(lines: Sequence[str], frame: int, end: int) -> bool:
    if _OF_ANOTHER.match(lines[end]):
        return True
    where = _FRAME.match(lines[frame])
    called = lines[end].startswith("subprocess.CalledProcessError: ")
    return called and where is not None and where[2].endswith(_STARTERS)


def _raised(lines: Sequence[str], allowed: int) -> tuple[RaisedException, ...]:
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


def _terminated(lines: Sequence[str]) -> tuple[RaisedException, ...]:
    for at in reversed(range(len(lines))):
        if match := _TERMINATE.match(lines[at]):
            text = "\n".join(lines[at + 1 :])[:LONGEST].strip()
            return (
                RaisedException(match[1], text.removeprefix("what():").strip() or match[1], ""),
            )
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


def _exception(lines: Sequence[str], frame: int, end: int, limit: int) -> RaisedException:
    match, where = _EXCEPTION.match(lines[end]), _FRAME.match(lines[frame])
    text = "\n".join(lines[end:limit])[:LONGEST].strip()
    place = f"{where[2].rpartition('/')[2]}:{where[3]}" if where else ""
    return RaisedException(match[1] if match else "", text, place)


def _unrelated(lines: Sequence[str]) -> int:
    """Return the number of lines that belong neither to a message nor to libraries' last output."""
    return sum(
        bool(line.strip()) and not line.startswith((" ", "\t")) and not _is_noise(line)
        for line in lines
    )


def _is_noise(line: str) -> bool:
    return line.startswith(_NOISE) or _is_chatter(line)


def _is_chatter(line: str) -> bool:
    return any(word in line for word in _CHATTER) and not any(word in line for word in _INTERFACE)
