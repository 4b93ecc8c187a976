"""Helper processes of Python and torch, which exit by themselves after their program."""

from __future__ import annotations

import re

from ..machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOMENT = 3.0
"""Seconds for helpers to exit when no other process is left."""

HELPERS = re.compile(
    r"\b(?:resource_tracker|semaphore_tracker|forkserver) import main\b"
    r"|(?:^|/)torch_shm_manager\b|\btorch/_inductor/compile_worker/"
)
"""Command lines of helpers: multiprocessing, joblib, torch's manager of shared memory, and torch's
compile workers. Each reads a pipe or socket to its program, and exits at its end."""

LOOKED_AT = 500
"""Maximum number of characters read of a command line."""


def is_helper(pid: int) -> bool:
    """Return whether a process is a helper by its command line, or is exiting.

    An exiting process no longer has a command line.
    """
    command = processes.command(pid, LOOKED_AT)
    return not command or bool(HELPERS.search(command))


def names(pids: Iterable[int]) -> str:
    """Return a list in words of the first few processes."""
    shown = [*pids][:5]
    return ", ".join(f"{processes.command(pid, 60) or '?'} (pid {pid})" for pid in shown)
