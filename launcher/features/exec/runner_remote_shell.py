"""Text for a host's shell that runs one command, and ends it with the session. Pure.

The login shell, of whatever kind, only runs `BOOT`; a POSIX shell reads the rest from its standard
input. Output of a start-up file comes before the mark and is not the command's output. When the
session's input ends, the session is over: the command's process group gets SIGTERM, and SIGKILL
after `GRACE`.
"""

from __future__ import annotations

import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .runner_events import HostCommand

BOOT = 'read -r c; eval "$c"'
"""The script of the shell; it passes through login shells of every kind in single quotes."""

GRACE = 2
"""Seconds from SIGTERM to SIGKILL."""

PIECE = 1 << 20
"""Bytes of input in one piece at most."""

_END = f'trap "" TERM; kill -TERM 0; sleep {GRACE}; kill -KILL 0'

# The shell's own standard error is closed: it would report every signal.
_OPEN = "exec 3<&0 4>&2 </dev/null 2>/dev/null; e=; trap e=1 TERM; "

_RUN = "(exec 2>&4 3<&- 4>&-; %(begin)sexec %(words)s)"

# After the end of the session, leftovers of the command get their time as well.
_EXIT = 'c=$?; [ "$e" ] || kill -KILL $w; exit $c'

# The watcher's `read` returns when the session ends.
_WATCHED = f"{_OPEN}{{ read -r _ <&3; {_END}; }} >/dev/null 4>&- & w=$!; {_RUN}; {_EXIT}"

# Each piece of input comes after its length. `head` reads no byte more than that. The feeder's
# first line is its own pid, with which the other end of the pipe ends it together with the command.
_FED = (
    f"{_OPEN}{{ sh -c 'echo $PPID'; "
    'while read -r n && [ "$n" -gt 0 ]; do head -c "$n" || break; done; '
    f"exec >/dev/null; cat; {{ {_END}; }} & }} <&3 4>&- | "
    f"{{ trap e=1 TERM; read -r w; {_RUN}; {_EXIT}; }}"
)

# A word with a line feed uses this variable, because the shell reads the script as one line.
_LINE_FEED = "nl=$(printf '\\n_'); nl=${nl%_}; "


def remote_line() -> str:
    """Return the command line for a login shell."""
    return f"exec sh -c '{BOOT}'"


def script(command: HostCommand, mark: str, *, reads: bool) -> bytes:
    """Return the first text to send: one line that runs a command.

    Args:
        command: the command.
        mark: printed on both streams before the command begins.
        reads: whether pieces of input follow.
    """
    folder = f"cd -- {_quoted(command.workdir)} || exit; " if command.workdir else ""
    words = " ".join(map(_quoted, command.argv))
    begin = f"{_LINE_FEED}echo {mark}; echo {mark} >&2; {folder}"
    text = (_FED if reads else _WATCHED) % {"begin": begin, "words": words}
    return text.encode("utf-8", "surrogateescape") + b"\n"


def pieces(data: bytes) -> list[bytes]:
    """Return input in the pieces that are sent; b"" ends it."""
    parts = [data[at : at + PIECE] for at in range(0, max(1, len(data)), PIECE)]
    return [b"%d\n%s" % (len(part), part) for part in parts]


def _quoted(word: str) -> str:
    return '"$nl"'.join(shlex.quote(part) for part in word.split("\n"))
