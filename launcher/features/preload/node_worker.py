"""Turns a fork of the preloader into a worker, as if `python -u SCRIPT` had been started."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import signal
import socket
from contextlib import suppress
from importlib.machinery import SourceFileLoader

from . import node_environment as environment
from . import node_identity as identity
from . import node_interpreter as interpreter
from . import node_libraries as libraries
from . import node_messages as messages
from . import node_safety as safety
from . import node_unused as unused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

    from .node_imports import ImportedModules
    from .node_process_changes import ProcessSurroundings


def become(
    line: socket.socket, preloaded: ImportedModules, fresh: Mapping[str, Any]
) -> Callable[[], object]:
    """Wait for the order, carry it out, and return the program; ends if there is no order."""
    received = None
    with suppress(BrokenPipeError):  # nobody waits for the message any longer
        messages.send(line, {"pid": os.getpid()})
        received = messages.receive(line)
    if received is None:
        os._exit(0)
    order, files = received
    line = _clear_of(order["fds"], line)
    argv = [environment.data(word) for word in order["argv"]]
    variables = {environment.data(n): environment.data(v) for n, v in order["env"].items()}
    try:
        _set_up(order, files, preloaded.before)
        path = [os.fsdecode(environment.data(folder)) for folder in order["path"]]
        program = interpreter.program(argv, path, preloaded.foreign)
        environment.replace(variables, preloaded.own)
        if name := libraries.renew():
            raise interpreter.NotResettable(f"{name} cannot be given its rank and CPUs")
    except interpreter.NotResettable as reason:
        _execute(argv, _hooked(variables, order["hook"]), line, str(reason))
    except BaseException as error:
        _fail(line, error)
    show(argv, variables)
    identity.allow_reading()
    _arm(order["hook"])
    line.close()
    run = interpreter.renewed(program, fresh)
    again = functools.partial(environment.change_again, preloaded.changed, environment.current())
    unused.put_aside(preloaded.foreign, preloaded.libraries, again)
    return run


def _clear_of(numbers: Sequence[int], line: socket.socket) -> socket.socket:
    """Move the socket out of the way of descriptors with these numbers."""
    above = max([line.fileno(), *numbers]) + 1
    with line:
        return socket.socket(fileno=fcntl.fcntl(line, fcntl.F_DUPFD_CLOEXEC, above))


def _set_up(order: dict[str, Any], files: Sequence[int], before: ProcessSurroundings) -> None:
    if problem := before.restore():
        raise interpreter.NotResettable(problem)
    taken = safety.open_files() & set(order["fds"]) - set(files)
    identity.take_files(files, (0, 1, 2, *order["fds"]))
    os.chdir(environment.data(order["workdir"]))
    if order["cpus"]:
        os.sched_setaffinity(0, order["cpus"])
    identity.set_memory(*order["memory"])
    if taken:
        raise interpreter.NotResettable(f"descriptor {min(taken)} is open in a preloaded module")


def _hooked(variables: Mapping[bytes, bytes], folder: str) -> Mapping[bytes, bytes]:
    """Return these variables with the folder of the hook (`hook` in `process`)."""
    folders = [environment.data(folder), variables.get(b"PYTHONPATH", b"")]
    return {**variables, b"PYTHONPATH": b":".join(filter(None, folders))} if folder else variables


def _arm(folder: str) -> None:
    """Prepare for questions, like an executed worker at its start."""
    if not folder:
        return
    with suppress(Exception):
        path = os.path.join(os.fsdecode(environment.data(folder)), "sitecustomize.py")
        hook = type(os)("dsrun hook")
        SourceFileLoader(hook.__name__, path).exec_module(hook)
        vars(hook)["arm"]()


def _execute(
    argv: list[bytes], variables: Mapping[bytes, bytes], line: socket.socket, reason: str
) -> NoReturn:
    """Execute the command itself, as after `spawn`."""
    messages.send(line, {"cold": reason})
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, variables)
    except BaseException as error:
        _fail(line, error)


def _fail(line: socket.socket, error: BaseException) -> NoReturn:
    """Report why this process cannot be the worker, and end."""
    reason = repr(error)
    if isinstance(error, OSError):
        name = error.filename
        reason = f"{os.fsdecode(name)}: {error.strerror}" if name else f"{error.strerror}"
    with suppress(OSError):
        messages.send(line, {"error": reason})
    os._exit(127)


_PR_SET_NAME = 15
_PR_SET_MM = 35
_PR_SET_MM_MAP = 14

_libc = ctypes.CDLL(None, use_errno=True)


class _Map(ctypes.Structure):
    """struct prctl_mm_map (linux/prctl.h)."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("start_code", "end_code", "start_data", "end_data")),
        *((name, ctypes.c_uint64) for name in ("start_brk", "brk", "start_stack", "arg_start")),
        *((name, ctypes.c_uint64) for name in ("arg_end", "env_start", "env_end", "auxv")),
        *(("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32)),
    )


_kept: list[object] = []
"""The memory that the kernel reads them from."""


def show(words: Sequence[bytes], environment: Mapping[bytes, bytes]) -> None:
    """Show this command and these variables in /proc.

    A kernel that does not allow it shows as much of the command as there is room for.
    """
    _libc.prctl(_PR_SET_NAME, os.path.basename(words[0])[:15], 0, 0, 0)
    line = b"".join(word + b"\0" for word in words)
    variables = b"".join(b"%b=%b\0" % pair for pair in environment.items())
    try:
        stat = _stat()
        if not _map(line, variables, stat):
            _overwrite(line, stat)
    except (OSError, IndexError):
        return  # some kernels hide it


def _stat() -> list[int]:
    """Return the numbers of /proc/self/stat, from field 4 on (proc(5))."""
    with open("/proc/self/stat", "rb", buffering=0) as file:
        return list(map(int, file.read().rpartition(b")")[2].split()[1:]))


def _map(line: bytes, variables: bytes, stat: Sequence[int]) -> bool:
    """Give the kernel another place for them (prctl(2), PR_SET_MM_MAP; no privilege needed)."""

    def field(number: int) -> int:
        return stat[number - 4]

    text = ctypes.create_string_buffer(line + variables)
    start = ctypes.addressof(text)
    middle, end = start + len(line), start + len(line) + len(variables)
    table = _Map(
        *(field(26), field(27), field(45), field(46), field(47), 0, field(28)),
        *(start, middle, middle, end, 0, 0, 0xFFFFFFFF),
    )
    table.brk = _brk()
    done = _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(table), ctypes.sizeof(table), 0)
    if done == 0:
        _kept.append(text)
    return bool(done == 0)


def _brk() -> int:
    _libc.sbrk.restype = ctypes.c_void_p
    return _libc.sbrk(0) or 0


def _overwrite(line: bytes, stat: Sequence[int]) -> None:
    """Write over the arguments that this process was started with."""
    start, end = stat[48 - 4], stat[49 - 4]
    room = max(end - start - 1, 0)
    with open("/proc/self/mem", "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), line[:room].ljust(room, b"\0"), start)
