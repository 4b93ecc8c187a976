"""A process that SIGKILL does not end, as if it waited for a disk that does not answer."""

from __future__ import annotations

import ctypes
import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dsrun.launcher.node.machine import processes

from .limits import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 17, 0x4206, 0x40
"""Values of ptrace(2)."""


@contextmanager
def unkillable(pid: int) -> Iterator[None]:
    """Within the block, hold a process at its end: it keeps its descriptors and its children.

    It must have one thread. The block is left by the thread that has entered it.
    """
    _ptrace(PTRACE_SEIZE, pid, PTRACE_O_TRACEEXIT)
    try:
        yield
    finally:
        _ptrace(PTRACE_DETACH, pid)


def held(pid: int) -> None:
    """Wait until such a process is held at its end, after SIGKILL."""
    wait_for(lambda: processes.stat(pid)[0] == "t", "the end of a process")


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    call = ctypes.CDLL(None, use_errno=True).ptrace
    call.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if call(request, pid, None, data):
        error = ctypes.get_errno()
        if error == errno.EPERM:
            pytest.skip("no process can be traced here")
        raise OSError(error, os.strerror(error))
