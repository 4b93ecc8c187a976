"""A node launcher on this machine as a fork of the runner, without starting an interpreter.

The runner has loaded half of the modules that a node launcher needs, and starting an interpreter
takes longer than loading the rest. The fork restores the state that an exec would leave, then runs
the node command. Its signals, descriptors and line in `ps` are as after the start of an
interpreter.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

from ..common import entry, signals
from ..common.errors import INTERNAL, exhausted
from .child import DEFAULTED, StartedChild, with_pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def is_possible(python: str) -> bool:
    """Return whether a fork of this process can replace a start of `python`.

    This process must be that interpreter, run only dsrun, and have one thread: locks held by other
    threads would never be released.
    """
    return python == sys.executable and entry.is_own() and len(os.listdir("/proc/self/task")) == 1


def fork(argv: Sequence[str]) -> StartedChild:
    """Start a process that is equivalent to `child.spawn(argv, os.environ)`.

    Args:
        argv: `python -E -S -c PROGRAM arguments ...`, with the Python of this process.

    Raises:
        OSError: the process could not be started.
    """

    def start(streams: Sequence[int]) -> int:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # otherwise both processes would write the buffered output
        gc.freeze()  # a garbage collection would copy every shared page
        pid = os.fork()
        if pid == 0:
            _become(argv, streams)
        return pid

    return with_pipes(start)


def _become(argv: Sequence[str], streams: Sequence[int]) -> None:
    """Turn the fork, which is this process, into the new process; never return."""
    try:
        os.setsid()
        for at, fd in enumerate(streams):
            os.dup2(fd, at)
        _close_on_exec()
        _reset_signals()
        _rename(argv)
        _remove_site()
        sys.argv[:] = ["-c", *argv[5:]]
        exec(argv[4], {"__name__": "__main__"})
    except BaseException as error:
        _tell(error)
    finally:
        os._exit(INTERNAL)


def _tell(error: BaseException) -> None:
    """Print why the fork could not become a node launcher."""
    if why := exhausted(error):
        sys.stderr.write(f"dsrun: {why}\n")  # nothing more can be imported
        sys.stderr.flush()
        return
    import traceback

    traceback.print_exc()


def _close_on_exec() -> None:
    """Close the descriptors that an exec would close."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the descriptor of /proc/self/fd itself
            if not os.get_inheritable(fd):
                os.close(fd)


def _reset_signals() -> None:
    """Set signals as `spawn`, exec and a new interpreter leave them, one after the other."""
    for number in {*DEFAULTED, *signals.changed(ignored=False)}:
        with suppress(OSError):  # the signal cannot be changed, or the C library reserves it
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _rename(argv: Sequence[str]) -> None:
    """Show this command in `ps`, so that signals by name reach the runner alone.

    /proc/self/stat has the start and end of the command line in memory (proc(5), fields 48 and 49).
    """
    with suppress(OSError, IndexError):  # some kernels hide it, or do not allow writing it
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(os.fsencode(os.path.basename(argv[0])))
        with open("/proc/self/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        room = max(end - start - 1, 0)
        line = b"\0".join(map(os.fsencode, argv))[:room].ljust(room, b"\0")
        with open("/proc/self/mem", "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), line, start)


def _remove_site() -> None:
    """Search modules only in the standard library, as `-E -S` would."""
    library = os.path.dirname(os.__file__)
    own = [path for path in sys.path if path in {library, f"{library}/lib-dynload"}]
    sys.path[:] = own or sys.path
