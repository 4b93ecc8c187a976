"""How every command of ours begins and ends as a process.

The one place that catches our own errors, and turns each into one line and an exit code.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from .errors import INTERNAL, DsrunError, OutputError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Act = Callable[[list[str]], int]


GARBAGE = 20_000
"""New objects before a look for garbage: more than a start makes, none of which is garbage."""


def main(act: Act, argv: Sequence[str] | None = None) -> int:
    """Run a command with these arguments (the process's own by default); returns the exit code.

    Args:
        act: does what the words ask for, and returns the exit code.
        argv: the words, without the command's own name.
    """
    _own_modules_first()
    import signal

    # Until there is something to clean up, an interrupt ends this like any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _open_streams()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        return act(list(sys.argv[1:] if argv is None else argv))
    except DsrunError as error:
        return _refuse(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + int(signal.SIGPIPE)
    except Exception:
        return _bug()


def _own_modules_first() -> None:
    """Look for modules in the user's PYTHONPATH last: it is for the workers, not for dsrun."""
    theirs = {os.path.abspath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path.sort(key=lambda folder: not folder or os.path.abspath(folder) in theirs)


def _open_streams() -> None:
    """Open on nothing what a daemon's start has left closed, before a file of ours lands there."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def write(text: str) -> None:
    """Write to standard output; bytes that are no text are spelled out.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OutputError(f"standard output: {reason(error)}") from None


def _refuse(error: DsrunError) -> int:
    from .text import plain

    for line in plain(str(error)).split("\n"):
        sys.stderr.write(f"dsrun: {line}\n")
    return error.exit_code


def _bug() -> int:
    import traceback

    from .text import plain

    sys.stderr.write(
        f"{plain(traceback.format_exc())}"
        "dsrun: this is a bug in dsrun, not in your job; please report the lines above\n"
    )
    return INTERNAL


_own = False


def is_own() -> bool:
    """Whether this process runs a command of ours and nothing else."""
    return _own


def start(act: Act) -> None:
    """Run a command as a process of its own; see `main`.

    Leaves without the interpreter's own clean-up: everything is written and closed by then.
    """
    global _own  # noqa: PLW0603
    _own = True
    gc.set_threshold(GARBAGE)
    code = main(act)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
