"""The command line and the environment of this process as other processes see them in /proc."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
