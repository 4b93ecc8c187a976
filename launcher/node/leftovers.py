"""Processes left behind by a job whose guard was killed as well."""

from __future__ import annotations

import os

from . import processes

LAUNCHER = b"DSRUN_NODE_LAUNCHER"
"""The variable by which every worker knows its node launcher: pid and start time."""


def leftovers() -> list[str]:
    """Return a text for each process of this user whose node launcher is gone.

    Every worker has the pid and start time of its node launcher in its environment. If that process
    no longer exists, the worker was left behind by a job whose guard was killed as well.
    """
    texts = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        owner = launcher_of(name)
        if owner and processes.started(owner[0]) != owner[1] and numbered_as_here(name):
            texts.append(f"pid {name} of a dsrun job that has ended")
    return texts


def numbered_as_here(pid: str) -> bool:
    """Return whether a process has the pid namespace of this one; those in containers do not."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid") == os.readlink("/proc/self/ns/pid")
    except OSError:
        return False


def launcher_of(pid: str) -> tuple[int, int] | None:
    """Return pid and start time of the node launcher that has started a process, if one has."""
    launcher, _, start = variable(pid, LAUNCHER).partition(b":")
    return (int(launcher), int(start)) if launcher.isdigit() and start.isdigit() else None


def variable(pid: str, name: bytes) -> bytes:
    """Return a variable that a process was started with; b"" without it, or if it is unreadable."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            environ = b"\0" + file.read()
    except OSError:
        return b""
    at = environ.find(b"\0" + name + b"=")
    return environ[at + len(name) + 2 :].partition(b"\0")[0] if at >= 0 else b""
