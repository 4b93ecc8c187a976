"""Parse names of signals, and list the signals that this process catches or ignores."""

from __future__ import annotations

import signal

from . import system
from .errors import UsageError

RESERVED = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
"""SIGKILL and SIGSTOP cannot be handled; SIGCHLD reports the end of child processes."""


def parse(option: str, name: str) -> signal.Signals:
    """Return the signal with a name such as SIGTERM.

    Raises:
        UsageError: there is no such signal, or a program cannot use it.
    """
    number = signal.Signals.__members__.get(name.strip().upper())
    if number is None or number in RESERVED:
        why = "no such signal" if number is None else "cannot be handled"
        valid = "expected a signal such as SIGTERM or SIGUSR1"
        raise UsageError(f"{option}: {name.strip()!r}: {why}; {valid}")
    return number


def changed(*, ignored: bool = True, status: str = "/proc/self/status") -> list[int]:
    """Return the signals that this process catches or ignores; all if the kernel does not say.

    Asking Python about each signal, or setting them all, takes ten times as long (proc(5), SigCgt).
    """
    fields = {b"SigCgt", b"SigIgn"} if ignored else {b"SigCgt"}
    with system.open_file(status, "rb") as file:
        lines = [line.partition(b":") for line in file]
    masks = [int(mask, 16) for field, _, mask in lines if field in fields] or [-1]
    return [number for number in range(1, signal.NSIG) if any(m >> number - 1 & 1 for m in masks)]
