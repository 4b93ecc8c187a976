"""Paths that were typed here, as every node is to have them."""

from __future__ import annotations

import os

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options


def workdir(options: Options) -> str:
    """Return the folder the workers run in, as an absolute path of this machine.

    Raises:
        UsageError: the current folder is gone.
    """
    return from_here(options.workdir or "")


def interpreter(options: Options) -> str | None:
    """Return --python as every node is to find it: a path that does not hang on its own folder.

    Raises:
        UsageError: the current folder is gone.
    """
    named = options.python
    return from_here(named) if named and "/" in named else named


def from_here(path: str) -> str:
    """Return a path that was typed in the current folder as an absolute one, "" as the folder.

    Raises:
        UsageError: the current folder is gone.
    """
    if os.path.isabs(path):
        return path
    try:
        here = _here()
    except FileNotFoundError:
        raise UsageError("the current folder is gone; start dsrun in another") from None
    return os.path.join(here, path.removeprefix("./")) if path else here


def _here() -> str:
    """Return the current folder by the name the user knows; other hosts may know no other."""
    logical = os.environ.get("PWD", "")
    try:
        if os.path.isabs(logical) and os.path.samefile(logical, "."):
            return logical
    except OSError:
        pass
    return os.getcwd()
