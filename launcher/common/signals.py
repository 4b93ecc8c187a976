"""Signals by name, as options have them, and those that this process does not leave as they are."""

from __future__ import annotations

import signal

from .errors import UsageError

OTHERS = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
"""Signals that no program can handle, and the one that tells of a child."""


def parse(option: str, name: str) -> signal.Signals:
    """Return the signal of a name such as SIGTERM.

    Raises:
        UsageError: there is none, or nobody can handle it.
    """
    number = signal.Signals.__members__.get(name.strip().upper())
    if number is None or number in OTHERS:
        why = "no signal" if number is None else "nobody can handle"
        raise UsageError(f"{option}: {why} {name.strip()!r}; expected such as SIGTERM or SIGUSR1")
    return number


def changed(*, ignored: bool = True, status: str = "/proc/self/status") -> list[int]:
    """Return the signals that this process catches or ignores; all where the kernel does not say.

    To ask Python for each signal, or to set every one, takes ten times as long (proc(5), SigCgt).
    """
    fields = {b"SigCgt", b"SigIgn"} if ignored else {b"SigCgt"}
    with open(status, "rb") as file:
        lines = [line.partition(b":") for line in file]
    masks = [int(mask, 16) for field, _, mask in lines if field in fields] or [-1]
    return [number for number in range(1, signal.NSIG) if any(m >> number - 1 & 1 for m in masks)]
