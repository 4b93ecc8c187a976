"""Helper processes of Python and torch, which end by themselves once their program has ended."""

from __future__ import annotations

import re

from ..machine import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MOMENT = 3.0
"""Seconds that helpers have for that where nothing else is left."""

HELPERS = re.compile(
    r"\b(?:resource_tracker|semaphore_tracker|forkserver) import main\b"
    r"|(?:^|/)torch_shm_manager\b|\btorch/_inductor/compile_worker/"
)
"""Command lines of multiprocessing's and joblib's helpers, torch's manager of shared memory and its
compile workers: each reads a pipe or socket to its program, and ends when that is closed."""

LOOKED_AT = 500
"""Characters of a command line."""


def is_helper(pid: int) -> bool:
    """Return whether a process is such a helper, by its command line, or is just ending.

    The command line of a process that is ending is gone with its memory.
    """
    command = processes.command(pid, LOOKED_AT)
    return not command or bool(HELPERS.search(command))


def names(pids: Iterable[int]) -> str:
    """Return the first of these processes in words."""
    shown = [*pids][:5]
    return ", ".join(f"{processes.command(pid, 60) or '?'} (pid {pid})" for pid in shown)
