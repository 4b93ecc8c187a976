"""The Pythons of a node that lacks the one for the workers."""

from __future__ import annotations

import os
import sys

from ...common import executable, system
from ...common.wording import ANOTHER_PYTHON
from .node_interpreter import interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NAMES = ("python3", *(f"python3.{minor}" for minor in range(10, 20)))
"""Programs that may be a Python for workers."""

NAMED = 3
"""Pythons that are named; the rest are counted."""


def problem(python: str, folders: Iterable[str]) -> str:
    """Return the message about a missing Python, which lists the present ones.

    Args:
        python: its path.
        folders: the workers' PATH.
    """
    try:
        target = system.readlink(python)
        link = f", a link to {os.path.join(os.path.dirname(python), target)}"
    except OSError:  # there is nothing, or no link
        link = ""
    paths = list(_found(folders))
    shown = ", ".join(_with_version(one) for one in paths[:NAMED])
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    there = "is" if len(paths) == 1 else "are"
    return f"no Python at {python}{link} {ANOTHER_PYTHON}; there {there} {shown}{more}"


def _found(folders: Iterable[str]) -> Iterator[str]:
    """Yield each Python on PATH once, by its first name; at least this process's."""
    seen = set[str]()
    found = (executable.find(name, [folder]) for folder in folders for name in NAMES)
    for path in filter(None, (*found, sys.executable)):
        real = os.path.realpath(path)
        if real not in seen:
            seen.add(real)
            yield path


def _with_version(path: str) -> str:
    version = interpreter(path, {}).version
    return f"{path} ({version})" if version else path
