"""What `.gitignore` and `.dsrunignore` leave out of a folder, as git understands them."""

from __future__ import annotations

import io
import os
import warnings

from ...common import files
from ...common.errors import UsageError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container

    from pathspec import GitIgnoreSpec

FILES = (".gitignore", ".dsrunignore")
"""Their names; in one folder the later one has the last word."""

LIMIT = 1 << 20
"""Bytes of such a file."""


class Ignored:
    """The rules that hold in one folder: its own, and those of the folders above."""

    def __init__(self, above: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        """Begin with the rules of the folders above, each with the path that it begins at."""
        self._rules = above

    def within(self, folder: str, path: str, names: Container[str]) -> Ignored:
        """Return the rules in a folder.

        Args:
            folder: where it is.
            path: its path relative to the synced folder, with `/` behind, "" for that itself.
            names: what is in it.

        Raises:
            UsageError: its rules cannot be read.
        """
        found = [os.path.join(folder, name) for name in FILES if name in names]
        own = tuple((path, _spec(file)) for file in found)
        return Ignored((*self._rules, *own)) if own else self

    def has(self, path: str) -> bool:
        """Return whether a path is left out; that of a folder ends with `/`."""
        for start, spec in reversed(self._rules):
            verdict = spec.check_file(path[len(start) :]).include
            if verdict is not None:
                return verdict
        return False


def _spec(path: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec

    try:
        data = files.read(path, LIMIT, pipes=False)
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape")
        with warnings.catch_warnings():  # of `re`, about what the rules of git allow
            warnings.simplefilter("ignore", FutureWarning)
            return GitIgnoreSpec.from_lines(lines)
    except OSError as error:
        raise UsageError(f"--sync: {path}: {reason(error)}") from None
    except Exception as error:  # what pathspec and `re` raise is not documented
        raise UsageError(f"--sync: {path}: {error}") from None
