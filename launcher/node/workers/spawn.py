"""Starts one worker, and records its end."""

from __future__ import annotations

import errno
import os
import signal
from contextlib import suppress

from ...common import signals, system
from ...common.errors import limit_met
from ...common.records import NamedTuple
from ..machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import NoReturn, TypeAlias

    from ...control.messages import NodeJob

    Streams: TypeAlias = tuple[int, int, int]

_PIPE_SIZE = 256 * 1024


class MemoryPolicy(NamedTuple):
    """The source of a worker's memory (set_mempolicy(2)).

    Attributes:
        form: the name in numactl: `bind`, `preferred`, `preferred-many` or `interleave`.
        nodes: the ids of NUMA nodes.
    """

    form: str
    nodes: tuple[int, ...]


class WorkerSpec(NamedTuple):
    """One worker, ready to be executed; the bytes are passed to execve(2).

    Attributes:
        cpus: the CPUs for the worker; () for no change.
        keep_stdin: whether standard input is a pipe instead of /dev/null.
        stdin: a descriptor for standard input; -1 for none.
        fds: further descriptors to inherit, under their own numbers.
        report: the descriptor for reading its report, if it calls a function; -1 for none.
        prefix: a command that sets memory policy and CPUs, and then executes `argv`; () without a
            memory policy.
        memory: the memory policy, for a worker that is started without `prefix`.
        hook: the folder of the hook that runs before its program; b"" for none. The hook removes
            the folder from PYTHONPATH, so that `env` does not list it.
        python: the interpreter that dsrun has chosen for it; b"" for another program.
    """

    rank: int
    argv: list[bytes]
    env: Mapping[bytes, bytes]
    workdir: bytes
    cpus: tuple[int, ...] = ()
    keep_stdin: bool = False
    stdin: int = -1
    fds: tuple[int, ...] = ()
    report: int = -1
    prefix: tuple[bytes, ...] = ()
    memory: MemoryPolicy | None = None
    hook: bytes = b""
    python: bytes = b""


class StartingWorkers(NamedTuple):
    """Workers that are about to start.

    Attributes:
        task: the workers' job on this node.
        log_folder: the folder of the log files, as wire text, or "".
        kept: returns the descriptors that the node launcher keeps open for them.
    """

    task: NodeJob
    log_folder: str = ""
    kept: Callable[[], Collection[int]] = tuple


class Process:
    """A worker that was started.

    Attributes:
        status: the wait status; None until the worker has ended.
        signalled: whether a signal was sent to stop the worker before it ended.
    """

    def __init__(self, spec: WorkerSpec, pid: int, stdin: int, stdout: int, stderr: int) -> None:
        self.spec = spec
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr
        self.status: int | None = None
        self.signalled = False


class SpawnFailed(Exception):
    """The kernel did not start a worker; the message is the reason."""


def spawn(spec: WorkerSpec) -> Process:
    """Fork and execute one worker in a new session.

    The fork is explicit, because the parent-death signal must be set and checked between fork and
    exec. This is safe: the node launcher has one thread, and the signal is tied to the forking
    thread.

    Raises:
        SpawnFailed: exec, or a step before it, failed; nothing is left running.
    """
    theirs, ours = pipes()
    failure, report = system.pipe2(os.O_CLOEXEC)
    parent = system.getpid()
    pid = system.fork(lambda: _become(spec, parent, theirs, report))
    for fd in (*theirs, report):
        system.close(fd)
    reason = _reason_in(failure)
    if reason:
        system.waitpid(pid, 0)
        for fd in ours:
            system.close(fd)
        raise SpawnFailed(reason)
    return started(spec, pid, ours)


def pipes() -> tuple[Streams, Streams]:
    """Return new pipes for a worker's standard streams: the worker's ends, and ours."""
    stdin, stdout, stderr = (system.pipe2(os.O_CLOEXEC) for _ in range(3))
    _widen(stdout[1])
    _widen(stderr[1])
    return (stdin[0], stdout[1], stderr[1]), (stdin[1], stdout[0], stderr[0])


def started(spec: WorkerSpec, pid: int, ours: Streams) -> Process:
    """Return the process of a started worker, given our ends of its pipes."""
    for fd in ours:
        system.set_blocking(fd, False)
    return Process(spec, pid, *ours)


def _widen(fd: int) -> None:
    """Enlarge a pipe: a worker that prints waits less. The kernel may refuse."""
    with suppress(OSError):
        system.set_pipe_size(fd, _PIPE_SIZE)


def _reason_in(fd: int) -> str:
    with system.open_file(fd, "rb") as pipe:
        return pipe.read().decode("utf-8", "replace")


def _become(spec: WorkerSpec, parent: int, streams: Streams, report: int) -> NoReturn:
    """Turn the fork into the worker, or report the error and exit; never return."""
    try:
        system.setsid()
        processes.die_with_parent(signal.SIGKILL)
        if system.getppid() != parent:
            system.exit_now(1)
        processes.allow_reading(parent)
        _default_signals()
        _take_streams(spec, streams)
        system.chdir(spec.workdir)
        if spec.cpus and not spec.prefix:
            system.sched_setaffinity(0, spec.cpus)
        command = [*spec.prefix, *spec.argv]
        system.execvpe(command[0], command, _environment(spec))
    except BaseException as error:
        system.write(report, _reason(spec, error).encode("utf-8", "replace"))
    system.exit_now(127)


def _environment(spec: WorkerSpec) -> Mapping[bytes, bytes]:
    if not spec.hook:
        return spec.env
    folders = [spec.hook, spec.env.get(b"PYTHONPATH", b"")]
    return {**spec.env, b"PYTHONPATH": b":".join(filter(None, folders))}


def _default_signals() -> None:
    """Reset the worker's signal dispositions and mask, as in a fresh login."""
    for number in signals.changed():
        with suppress(OSError):  # the signal cannot be handled, or the C library reserves it
            system.set_handler(number, signal.SIG_DFL)
    system.pthread_sigmask(signal.SIG_SETMASK, [])


def _take_streams(spec: WorkerSpec, streams: Streams) -> None:
    stdin, stdout, stderr = streams
    if spec.stdin >= 0:
        stdin = spec.stdin
    elif not spec.keep_stdin:
        stdin = system.open_fd(os.devnull, os.O_RDONLY)
    for fd, stream in enumerate((stdin, stdout, stderr)):
        system.dup2(stream, fd, inheritable=True)
    for fd in spec.fds:
        system.set_inheritable(fd, True)


def _reason(spec: WorkerSpec, error: BaseException) -> str:
    program = os.fsdecode((spec.prefix or spec.argv)[0])
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        name, size = _largest(spec)
        return (
            f"{program}: the arguments and environment are too long; largest: {name}, {size} bytes"
        )
    if isinstance(error, OSError) and error.errno == errno.ENOEXEC:
        return f"{program}: neither a program for this machine nor a script that begins with #!"
    if isinstance(error, OSError):
        name = os.fsdecode(error.filename or program)
        return f"{name}: {error.strerror}{limit_met(error)}{_missing_right(name, error)}"
    return f"{program}: {error!r}"


def _missing_right(path: str, error: OSError) -> str:
    if error.errno != errno.EACCES:
        return ""
    from ...common.access import denied

    why = denied(path, os.X_OK)
    return f": {why}" if why else ""


def _largest(spec: WorkerSpec) -> tuple[str, int]:
    """Return name and size of the largest variable or argument, for E2BIG (execve(2))."""
    sizes = {os.fsdecode(name): len(value) for name, value in spec.env.items()}
    sizes |= {f"argument {at}": len(value) for at, value in enumerate(spec.argv)}
    return max(sizes.items(), key=lambda item: item[1])
