"""The preloader at work: imports the requested modules, then forks a worker for each socket."""

from __future__ import annotations

import fcntl
import gc
import os
import socket
import sys

from . import node_identity as identity
from . import node_imports as imports
from . import node_messages as messages
from . import node_safety as safety
from . import node_worker as worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

_HIGH = 200
"""Lowest number of own descriptors; files opened by modules have their usual numbers."""


def serve(fresh: dict[str, Any], usual: Collection[str]) -> Callable[[], object]:
    """Serve the node launcher; return only in a worker, with its program.

    The program runs in the namespace of `__main__`. When a script begins, that namespace contains
    `fresh`, and the usual modules are imported.
    """
    line = _take_line()
    order = messages.receive(line)
    if order is None:
        os._exit(0)
    wanted = order[0]
    sys.argv[:] = [""]  # as in an interpreter that runs no script
    gc.disable()  # a fifth of the time that importing torch takes
    preloaded = imports.preload(wanted["modules"], wanted["folders"], usual)
    gc.freeze()  # or the first collection in a worker would copy every page that is shared
    gc.enable()
    messages.send(line, preloaded.report)
    launcher = os.getppid()
    while (request := messages.receive(line)) is not None:
        own = _fork([_high(fd) for fd in request[1]], launcher)
        if own is not None:
            line.close()
            return worker.become(own, preloaded, fresh)
    os._exit(0)


def _take_line() -> socket.socket:
    """Return the control line; standard input is empty from now on."""
    line, null = _high(0), os.open(os.devnull, os.O_RDONLY)
    if null != 0:
        os.dup2(null, 0)
        os.close(null)
    return socket.socket(fileno=line)


def _high(fd: int) -> int:
    """Move a descriptor out of the way; return its new number."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH)
    os.close(fd)
    return moved


def _fork(lines: Sequence[int], launcher: int) -> socket.socket | None:
    """Fork a worker for each of these sockets; returns the worker's own one in a worker, else None.

    They are forked from a process that ends at once, so they become children of the node launcher.
    The end of a pipe tells them that this has happened.
    """
    orphaned, parent = map(_high, os.pipe())
    own = None
    middle = _forked()
    if middle == 0:
        os.close(parent)
        own = _fork_each(lines)
        _wait_for_adoption(orphaned, launcher)
    else:
        _reap(middle)
        os.close(parent)
    for fd in (orphaned, *lines):
        if fd != own:
            os.close(fd)
    return None if own is None else socket.socket(fileno=own)


def _forked() -> int:
    """Call fork(2), and return its result; -1 if there is no room for another process."""
    try:
        return safety.forked()
    except OSError:
        return -1


def _reap(pid: int) -> None:
    if pid > 0:
        os.waitpid(pid, 0)


def _fork_each(lines: Sequence[int]) -> int:
    """Return, in each worker, its socket; this process, which forks them, ends."""
    for line in lines:
        if _forked() == 0:
            return line
    os._exit(0)


def _wait_for_adoption(orphaned: int, launcher: int) -> None:
    """Wait until this process is a child of the node launcher; from then on, die with it."""
    for stream in (1, 2):
        os.dup2(0, stream)  # else the preloader's streams would stay open
    os.read(orphaned, 1)
    os.setsid()
    identity.die_with_parent()
    if os.getppid() != launcher:
        os._exit(1)
