"""Process entry and exit, shared by all commands of dsrun, and objects by entry point.

This is the only place that catches dsrun's own errors, and turns each into a line and an exit code.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress

from .errors import INTERNAL, NODE_UNUSABLE, DsrunError, OutputError, exhausted, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    Command = Callable[[list[str]], int]


FEATURES = f"{__name__.rpartition('.common')[0]}.features"
"""The package to which module names in tables are relative."""

GC_THRESHOLD = 20_000
"""New objects before a garbage collection: a start makes fewer, and none of them is garbage."""


def main(command: Command, argv: Sequence[str] | None = None) -> int:
    """Run a command with these arguments (the process's own by default); return the exit code.

    Args:
        command: called with the arguments; returns the exit code.
        argv: the arguments, without the command's own name.
    """
    _own_modules_first()
    import signal

    # Until there is something to clean up, SIGINT kills this process like any other program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _open_streams()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        return command(list(sys.argv[1:] if argv is None else argv))
    except DsrunError as error:
        return _refuse(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 128 + int(signal.SIGPIPE)
    except Exception as error:
        if why := exhausted(error):
            sys.stderr.write(f"dsrun: {why}\n")  # nothing more can be imported
            return NODE_UNUSABLE
        return _bug()


def _own_modules_first() -> None:
    """Move the user's PYTHONPATH to the end of sys.path: it is for the workers, not for dsrun."""
    users = {_absolute(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path.sort(key=lambda folder: not folder or _absolute(folder) in users)


def _absolute(folder: str) -> str:
    """Return a folder of sys.path as an absolute path, if the current folder still exists."""
    try:
        return os.path.abspath(folder)
    except FileNotFoundError:
        return folder


def _open_streams() -> None:
    """Open closed standard streams on /dev/null, so that no other file gets their descriptors."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def load(name: str, package: str = FEATURES) -> Any:
    """Return an object by its entry point, ".module:name", the module relative to a package."""
    module, _, own = name.partition(":")
    bare = module.lstrip(".")
    level = len(module) - len(bare)
    # Without `importlib`, which takes longer to import than most of what is loaded here.
    return getattr(__import__(bare, {"__package__": package}, None, (own,), level), own)


def write(text: str) -> None:
    """Write to standard output; characters that UTF-8 cannot encode are escaped.

    Raises:
        OutputError: standard output cannot be written.
    """
    try:
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace"))
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise OutputError(f"standard output: {reason(error)}") from None


def note(texts: Iterable[str]) -> None:
    """Print messages to the user of a command on standard error."""
    from .stderr import tell

    for text in texts:
        tell(text)


def _refuse(error: DsrunError) -> int:
    note([str(error)])
    return error.exit_code


def _bug() -> int:
    import traceback

    from .text import plain

    with suppress(OSError):
        sys.stderr.write(plain(traceback.format_exc()))
    note(["this is a bug in dsrun, not in your job; please report the lines above"])
    return INTERNAL


_is_own = False


def is_own() -> bool:
    """Return whether this process was started to run a command of dsrun, and nothing else."""
    return _is_own


def start(command: Command) -> None:
    """Run a command as the whole process; see `main`.

    The process exits without the interpreter's clean-up: by then, everything is written and closed.
    """
    global _is_own  # noqa: PLW0603
    _is_own = True
    gc.set_threshold(GC_THRESHOLD)
    code = main(command)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
