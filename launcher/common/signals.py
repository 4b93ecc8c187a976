"""Signals by name, as options have them. Pure."""

from __future__ import annotations

import signal

from .errors import UsageError

OTHERS = {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
"""Signals that no program can handle, and the one that tells of a child."""


def named(option: str, name: str) -> signal.Signals:
    """Return the signal of a name such as SIGTERM.

    Raises:
        UsageError: there is none, or nobody can handle it.
    """
    number = signal.Signals.__members__.get(name.strip().upper())
    if number is None or number in OTHERS:
        why = "no signal" if number is None else "nobody can handle"
        raise UsageError(f"{option}: {why} {name.strip()!r}; expected such as SIGTERM or SIGUSR1")
    return number
