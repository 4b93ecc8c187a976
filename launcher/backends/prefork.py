"""A node launcher on this machine without a second interpreter to start: a fork of the runner.

The runner has loaded half of what a node launcher needs, and starting an interpreter takes longer
than loading the rest. The fork makes of itself what an exec would have made of it, then does what
the node command does; nobody can tell the two apart, by signals, descriptors or in `ps`.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from contextlib import suppress

from ..common import entry, signals
from ..common.errors import INTERNAL
from .child import DEFAULTED, Started, with_pipes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def is_possible(python: str) -> bool:
    """Whether a fork of this process can do what `python` would.

    It is that interpreter, runs nothing but dsrun, and has one thread: locks of others would stay.
    """
    return python == sys.executable and entry.is_own() and len(os.listdir("/proc/self/task")) == 1


def fork(argv: Sequence[str], run: Callable[[], None]) -> Started:
    """Start a process that runs `run`, and looks as if `child.spawn` had started `argv`.

    Its environment is that of this process.

    Raises:
        OSError: it could not be started.
    """

    def start(streams: Sequence[int]) -> int:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both processes would write it
        gc.freeze()  # a collection would copy every page that is shared
        pid = os.fork()
        if pid == 0:
            _become(argv, streams, run)
        return pid

    return with_pipes(start)


def _become(argv: Sequence[str], streams: Sequence[int], run: Callable[[], None]) -> None:
    """Make of this process, which is the fork, what it is to be, and run it; never returns."""
    try:
        os.setsid()
        for at, fd in enumerate(streams):
            os.dup2(fd, at)
        _close_on_exec()
        _reset_signals()
        _rename(argv)
        _forget_site()
        run()
    except BaseException:
        import traceback

        traceback.print_exc()
    os._exit(INTERNAL)


def _close_on_exec() -> None:
    """Close what an exec closes."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the folder's own
            if not os.get_inheritable(fd):
                os.close(fd)


def _reset_signals() -> None:
    """Set signals as `spawn`, exec and a starting interpreter leave them, one after the other."""
    for number in {*DEFAULTED, *signals.changed(ignored=False)}:
        with suppress(OSError):  # nobody can change it, or it is the C library's own
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _rename(argv: Sequence[str]) -> None:
    """Be shown under this command: who signals the runner by its name means the runner alone.

    Where the command line is, and how long it may be, stands in /proc/self/stat (proc(5), 48, 49).
    """
    with suppress(OSError, IndexError):  # not every kernel tells, or lets it be written
        with open("/proc/self/comm", "wb", buffering=0) as file:
            file.write(os.fsencode(os.path.basename(argv[0])))
        with open("/proc/self/stat", "rb", buffering=0) as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        room = max(end - start - 1, 0)
        line = b"\0".join(map(os.fsencode, argv))[:room].ljust(room, b"\0")
        with open("/proc/self/mem", "r+b", buffering=0) as file:
            os.pwrite(file.fileno(), line, start)


def _forget_site() -> None:
    """Look for modules where `-E -S` would: in the standard library alone."""
    library = os.path.dirname(os.__file__)
    own = [path for path in sys.path if path in {library, f"{library}/lib-dynload"}]
    sys.path[:] = own or sys.path
