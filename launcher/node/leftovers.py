"""Processes left behind by a job whose guard was killed as well."""

from __future__ import annotations

import os

from . import processes


def leftovers() -> list[str]:
    """Return a text for each process of this user whose node launcher is gone.

    Every worker has the pid and start time of its node launcher in its environment. If that process
    no longer exists, the worker was left behind by a job whose guard was killed as well.
    """
    texts = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        owner = _launcher_of(name)
        if owner and processes.started(owner[0]) != owner[1] and _numbered_as_here(name):
            texts.append(f"pid {name} of a dsrun job that has ended")
    return texts


def _numbered_as_here(pid: str) -> bool:
    """Return whether a process has the pid namespace of this one; those in containers do not."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def _launcher_of(pid: str) -> tuple[int, int] | None:
    name = b"DSRUN_NODE_LAUNCHER="
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environ = file.read()
    except OSError:
        return None
    at = environ.find(b"\0" + name)
    if at < 0:
        return None
    launcher, _, start = environ[at + 1 + len(name) :].partition(b"\0")[0].partition(b":")
    return (int(launcher), int(start)) if launcher.isdigit() and start.isdigit() else None
