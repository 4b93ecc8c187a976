"""Checks whether forks of a process that has imported modules are safe."""

from __future__ import annotations

import ctypes
import os
import stat
import threading
import warnings
from contextlib import suppress

from . import node_libraries as libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_HARD = 2
"""omp_pause_hard: give up all resources (OpenMP 5.0, omp_pause_resource_all)."""

_HARMLESS = {1, 4, 5, *range(136, 144)}
"""Major numbers of /dev/null, /dev/urandom and the like, and of terminals (devices.txt)."""

_OPENMP = ("gomp", "iomp5", "libomp")
_POOLS = (*_OPENMP, "blas", "mkl_", "blis")
_PLACES = (b"OMP_PROC_BIND", b"OMP_PLACES", b"GOMP_CPU_AFFINITY", b"KMP_AFFINITY")


def open_files() -> set[int]:
    """Return the open descriptors of this process."""
    files = set()
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # the one of /proc/self/fd itself
            os.fstat(fd)
            files.add(fd)
    return files


def problem(known: Collection[int]) -> str:
    """Return why a fork of this process would not be sound; "" if it would be.

    Thread pools of OpenMP and BLAS libraries are ended first: they start again when they are used.
    Descriptors in `known` do not matter.
    """
    _stop_pools()
    files = [fd for fd in sorted(open_files()) if fd not in known]
    return _device(files) or _connection(files) or _shared_memory() or _child() or _thread()


def other_libraries() -> set[str]:
    """Return the loaded libraries that are not Python's own."""
    return {path for path in _libraries((".so",)) if not libraries.PYTHON.search(path)}


def counted_cpus(environment: Mapping[bytes, bytes]) -> list[int] | None:
    """Return the CPUs of this process if thread pools have counted them, or are pinned to them."""
    given = {name for name, value in environment.items() if value}
    placed = any(name in given for name in _PLACES)
    if (b"OMP_NUM_THREADS" in given and not placed) or not _libraries(_POOLS):
        return None
    return sorted(os.sched_getaffinity(0))


def _stop_pools() -> None:
    """End the threads of pools that can be ended.

    GNU's OpenMP does not survive a fork with a pool, but gives it up if asked. OpenBLAS ends its
    own in its fork handler.
    """
    for path in _libraries(_OPENMP):
        with suppress(OSError, AttributeError):  # no longer loaded, or older than OpenMP 5.0
            ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_NOLOAD).omp_pause_resource_all(_HARD)
    if len(_tasks()) > 1:
        pid = forked()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)


def forked() -> int:
    """Call fork(2), and return its result.

    Raises:
        OSError: there is no room for another process.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork beside threads, from Python 3.12 on
        return os.fork()


def _device(files: Collection[int]) -> str:
    for fd in files:
        status = os.fstat(fd)
        kind = stat.S_IFMT(status.st_mode)
        if kind in {stat.S_IFCHR, stat.S_IFBLK} and os.major(status.st_rdev) not in _HARMLESS:
            return f"the device file {_name(fd)} is open"
    for path, _ in _mappings():
        if path.startswith("/dev/") and not path.startswith(("/dev/shm/", "/dev/zero")):
            return f"the device file {path} is mapped"
    return ""


def _connection(files: Collection[int]) -> str:
    """Find a descriptor that all forks would read from, or write to, together."""
    for fd in files:
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind not in {stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK}:
            return f"descriptor {fd} ({_name(fd)}) is open"
    return ""


def _shared_memory() -> str:
    """Find memory that forks would share, and that others cannot map by its name."""
    for path, flags in _mappings():
        unnamed = path.endswith("(deleted)") or path.startswith(("anon_inode:", "/SYSV"))
        if (unnamed or not path) and flags[1] == "w" and flags[3] == "s":
            return f"memory is shared ({path or 'without a name'})"
    return ""


def _child() -> str:
    with suppress(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return "a child process was started"
    return ""


def _thread() -> str:
    ours = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
    if ours:
        return f"a thread is running ({ours[0]})"
    others = {_comm(task) for task in _tasks() if task != os.getpid()} - libraries.THREADS
    return f"a thread outside Python is running ({min(others)})" if others else ""


def _tasks() -> list[int]:
    return sorted(map(int, os.listdir("/proc/self/task")))


def _comm(task: int) -> str:
    try:
        with open(f"/proc/self/task/{task}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "?"


def _name(fd: int) -> str:
    return os.readlink(f"/proc/self/fd/{fd}")


def _libraries(parts: Collection[str]) -> set[str]:
    """Return the loaded libraries whose file names contain one of these."""
    paths = {path for path, _ in _mappings() if path.startswith("/")}
    return {path for path in paths if any(one in os.path.basename(path) for one in parts)}


def _mappings() -> Iterator[tuple[str, str]]:
    """Return path ("" for none) and permissions of memory mappings (proc(5), /proc/PID/maps)."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.rstrip("\n").split(maxsplit=5)
            yield (fields[5] if len(fields) > 5 else ""), fields[1]
