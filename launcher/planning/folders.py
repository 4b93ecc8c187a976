"""Make paths of the command line absolute, for all nodes."""

from __future__ import annotations

import os

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..cli.options import Options


def workdir(options: Options) -> str:
    """Return the workers' folder, as an absolute path of this machine.

    Raises:
        UsageError: the current folder does not exist any more.
    """
    return from_here(options.workdir or "")


def interpreter(options: Options) -> str | None:
    """Return --python; a path is made absolute, a plain name is searched on each node's PATH.

    Raises:
        UsageError: the current folder does not exist any more.
    """
    named = options.python
    return from_here(named) if named and "/" in named else named


def from_here(path: str) -> str:
    """Return a path relative to the current folder as an absolute one; "" is the folder itself.

    Raises:
        UsageError: the current folder does not exist any more.
    """
    if os.path.isabs(path):
        return path
    try:
        current = _current_folder()
    except FileNotFoundError:
        raise UsageError(
            "the current folder does not exist any more; start dsrun in another one"
        ) from None
    return os.path.join(current, path.removeprefix("./")) if path else current


def _current_folder() -> str:
    """Return the current folder by its logical path: other hosts may not have the real path."""
    logical = os.environ.get("PWD", "")
    try:
        if os.path.isabs(logical) and os.path.samefile(logical, "."):
            return logical
    except OSError:
        pass
    return os.getcwd()
