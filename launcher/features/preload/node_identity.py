"""The kernel's properties of a worker: death signal, descriptors and memory policy."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1
_PR_SET_PTRACER = 0x59616D61

# Source: set_mempolicy(2), linux/mempolicy.h, and the tables of system calls of these machines.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}
_POLICIES = {"preferred": 1, "bind": 2, "interleave": 3, "preferred-many": 5}

_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Request SIGKILL for when the parent ends.

    Raises:
        OSError: the kernel refuses.
    """
    _check(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))


def allow_reading() -> None:
    """Let the parent and its children read the memory of this process, if the kernel asks."""
    _libc.prctl(_PR_SET_PTRACER, os.getppid(), 0, 0, 0)


def take_files(received: Sequence[int], numbers: Sequence[int]) -> None:
    """Give received descriptors these numbers, inheritable by programs."""
    above = max(numbers) + 1
    moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, above) for fd in received]
    for fd in received:
        os.close(fd)
    for fd, number in zip(moved, numbers, strict=True):
        os.dup2(fd, number, inheritable=True)
        os.close(fd)


def set_memory(policy: str, nodes: Sequence[int]) -> None:
    """Set the source of memory (set_mempolicy(2)); "" for no change.

    Raises:
        OSError: the kernel refuses, or the number of this system call is not known here.
    """
    if not policy:
        return
    width = max(nodes) // 64 + 1
    mask = (ctypes.c_uint64 * width)()
    for node in nodes:
        mask[node // 64] |= 1 << node % 64
    number = _SET_MEMPOLICY.get(platform.machine(), -1)
    # The kernel ignores the last bit of the given number.
    arguments = map(ctypes.c_long, (number, _POLICIES[policy]))
    _check(_libc.syscall(*arguments, mask, ctypes.c_ulong(64 * width + 1)))


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
