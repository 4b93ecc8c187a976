"""The activity of processes, from the files that `strace -ff -y` writes. Pure."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

KINDS = {
    "execve": ("execve", "execveat"),
    "fork": ("clone", "clone3", "fork", "vfork"),
    "open": ("open", "openat", "creat"),
    "look": (
        *("stat", "lstat", "fstat", "newfstatat", "statx", "access", "faccessat", "faccessat2"),
        *("readlink", "readlinkat", "getdents64", "getcwd", "statfs"),
    ),
    "read": ("read", "pread64", "readv", "lseek"),
    "write": ("write", "pwrite64", "writev", "ftruncate"),
    "socket": (
        *("socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "shutdown"),
        *("setsockopt", "getsockopt", "getsockname", "getpeername"),
        *("sendto", "sendmsg", "recvfrom", "recvmsg"),
    ),
    "descriptor": ("close", "close_range", "dup", "dup2", "dup3", "fcntl", "ioctl", "pipe2"),
    "memory": ("mmap", "munmap", "mprotect", "brk", "madvise", "mremap"),
    "signal": (
        *("rt_sigaction", "rt_sigprocmask", "kill", "tgkill", "pidfd_open", "pidfd_send_signal"),
        *("rt_sigtimedwait", "signalfd4", "sigaltstack"),
    ),
    "wait": (
        *("epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "poll", "ppoll", "pselect6"),
        *("wait4", "waitid", "futex", "nanosleep", "clock_nanosleep", "rt_sigreturn"),
        *("restart_syscall", "sched_yield"),
    ),
}
"""System calls by kind; the others are `other`."""

KIND = {name: kind for kind, names in KINDS.items() for name in names}

MODULE = re.compile(r"(?P<folder>.*)/__pycache__/(?P<name>[^/]+)\.cpython-\d+\.pyc")
LIBRARY = re.compile(r".*/lib[^/]+\.so[.\d]*")
EXTENSION = re.compile(r".*/lib-dynload/[^/]+\.so")


class Call(NamedTuple):
    """A system call that has returned.

    Attributes:
        name: of the call.
        args: as strace prints them.
        result: what it returned, -1 for an error.
    """

    name: str
    args: str
    result: int


class Counts(NamedTuple):
    """The activity of a process.

    Attributes:
        calls: system calls, by kind.
        modules: the files of Python modules that it has loaded itself, each once, in order: a
            source for a module with byte code.
        forks: processes that it has started, not threads.
    """

    calls: Mapping[str, int]
    modules: Sequence[str]
    forks: int


CALL = re.compile(r"(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+)(?:[<\s].*)?")


def read(text: str) -> list[Call]:
    """Return the calls in the file of one thread, without those that have not returned."""
    found = (CALL.fullmatch(line) for line in text.splitlines())
    return [Call(one["name"], one["args"], int(one["result"], 0)) for one in found if one]


def until(calls: Sequence[Call], last: Callable[[Call], bool]) -> list[Call]:
    """Return the calls up to and including the first for which `last` is true.

    Raises:
        LookupError: it is true for none.
    """
    for at, call in enumerate(calls):
        if last(call):
            return [*calls[: at + 1]]
    raise LookupError("the last call is not there")


def after_exec(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of the last program that a process has executed, with the execve."""
    at = max((at for at, one in enumerate(calls) if executes(one)), default=0)
    return [*calls[at:]]


def executes(call: Call) -> bool:
    """Return whether this call has executed a program."""
    return call.name == "execve" and call.result == 0


def starts_process(call: Call) -> bool:
    """Return whether this call has started a process, and not a thread."""
    return KIND.get(call.name) == "fork" and call.result > 0 and "CLONE_THREAD" not in call.args


def children(calls: Sequence[Call]) -> list[int]:
    """Return the pids of the processes that were started, in order."""
    return [call.result for call in calls if starts_process(call)]


def started(calls: Sequence[Call]) -> list[int]:
    """Return the ids of the processes and threads that were started, in order."""
    return [call.result for call in calls if KIND.get(call.name) == "fork" and call.result > 0]


def without_searches(calls: Sequence[Call]) -> Iterator[Call]:
    """Yield the calls but those with which ld.so looks for a library where it is not.

    It tries a folder for each set of features of the processor: other machines have others.
    """
    folder = ""
    for call in calls:
        path = call.args.split('"')[1] if call.result < 0 and '"' in call.args else ""
        if call.name == "openat" and LIBRARY.fullmatch(path):
            folder = path.rpartition("/")[0]
        elif not path or path != folder:
            yield call


def count(calls: Sequence[Call]) -> Counts:
    """Return the activity in these calls."""
    kinds = Counter(KIND.get(call.name, "other") for call in without_searches(calls))
    modules = dict.fromkeys(_modules(calls))
    return Counts(dict(kinds), [*modules], len(children(calls)))


def _modules(calls: Sequence[Call]) -> Iterator[str]:
    for call in calls:
        if call.name == "openat" and call.result >= 0 and '"' in call.args:
            path = call.args.split('"')[1]
            if found := MODULE.fullmatch(path):
                yield f"{found['folder']}/{found['name']}.py"
            elif EXTENSION.fullmatch(path):
                yield path


def sent(calls: Sequence[Call], first: str) -> int:
    """Return the number of bytes written to the target of the message with this beginning.

    Args:
        calls: of the process that writes.
        first: the beginning of the message as strace prints it, as a regular expression.
    """
    begins = re.compile(rf'\d+<(?P<to>[^>]*)>, "{first}')
    found = (begins.match(call.args) for call in calls if call.name == "write")
    to = next((one["to"] for one in found if one), None)
    if to is None:
        return 0
    lines = re.compile(rf"\d+<{re.escape(to)}>,")
    return sum(one.result for one in calls if one.name == "write" and lines.match(one.args))
