"""The entries that `.gitignore` and `.dsrunignore` exclude from a folder, by git's rules."""

from __future__ import annotations

import io
import os
import re
import warnings

from ...common import files
from ...common.errors import UsageError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from pathspec import GitIgnoreSpec
    from pathspec.pattern import RegexPattern

FILES = (".gitignore", ".dsrunignore")
"""Names of the files with rules; in one folder, the later one takes precedence."""

LIMIT = 1 << 20
"""Bytes of such a file."""

_ABOVE, _STAR, _BETWEEN, _END = "^(?:.+/)?", "[^/]*", "(?:/.+)?", "|$)"
"""pathspec's translations of `**/`, `*`, `/**/` and the end, which resemble no other part."""

_CLASS = re.compile(r"\\.|\[(?!\^/\])\^?\]?[^]]*(?:\]|\Z)", re.DOTALL)
"""A class of characters, other than the one for `?`; or an escaped character, which begins none."""


class Ignored:
    """The rules for one folder, with its parents' rules."""

    def __init__(self, above: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        """Begin with the rules of the folders above, each with the path that it begins at."""
        self._rules = above

    def within(self, folder: str, path: str, names: Container[str]) -> Ignored:
        """Return the rules in a folder.

        Args:
            folder: the path of the folder.
            path: its path relative to the synced folder, with `/` behind, "" for that folder
                itself.
            names: the names of its entries.

        Raises:
            UsageError: the rules cannot be read.
        """
        found = [os.path.join(folder, name) for name in FILES if name in names]
        own = tuple((path, _spec(file)) for file in found)
        return Ignored((*self._rules, *own)) if own else self

    def has(self, path: str) -> bool:
        """Return whether a path is ignored; a folder's path ends with `/`."""
        for start, spec in reversed(self._rules):
            verdict = spec.check_file(path[len(start) :]).include
            if verdict is not None:
                return verdict
        return False


def _spec(path: str) -> GitIgnoreSpec:
    try:
        from pathspec import GitIgnoreSpec
    except ImportError:
        from ...common.packages import lacks

        raise UsageError(f"--sync: {path}: {lacks('pathspec', 'reads this file')}") from None
    try:
        data = files.read(path, LIMIT, pipes=False)
        lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", "surrogateescape")
        with warnings.catch_warnings():  # of `re`, about patterns that git allows
            warnings.simplefilter("ignore", FutureWarning)
            return GitIgnoreSpec.from_lines(lines, _rule, backend="simple")
    except OSError as error:
        raise UsageError(f"--sync: {path}: {reason(error)}") from None
    except Exception as error:  # the exceptions of pathspec and `re` are not documented
        raise UsageError(f"--sync: {path}: {error}") from None


def _rule(line: str) -> RegexPattern:
    from pathspec.pattern import RegexPattern
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    regex, include = GitIgnoreSpecPattern.pattern_to_regex(line)
    return RegexPattern(regex and re.compile(_linear(_exact(regex)), re.DOTALL), include)


def _exact(regex: str) -> str:
    """Return a pattern of pathspec's that takes `[!a]` and line feeds in names as git does."""
    if regex.endswith(_END):
        regex = rf"{regex.removesuffix(_END)}|\Z)"
    return _CLASS.sub(lambda one: one[0] if one[0].startswith("\\") else f"(?!/){one[0]}", regex)


def _linear(regex: str) -> str:
    """Return an equivalent of a pathspec pattern that matches in a time linear in the path.

    Otherwise `re` tries all places for each star, together with all places for each other star. But
    the text between two stars can be matched at its first occurrence, as that leaves more for the
    rest. So can the text between two `/**/`. For the last one, the longest match counts, which
    tells whether the path itself matches, or a parent folder.
    """
    groups = iter(range(len(regex)))
    *parts, last = (_stars(part, groups) for part in regex.split(_BETWEEN))
    for place, part in enumerate(parts):
        if place:
            parts[place] = _once(f"(?:/.+?)??{part}(?=/)", groups)
        elif part.startswith(_ABOVE):
            parts[place] = "^" + _once(f"(?:.+?/)??{part.removeprefix(_ABOVE)}(?=/)", groups)
    return "".join(parts) + (_BETWEEN if parts else "") + last


def _stars(part: str, groups: Iterator[int]) -> str:
    """Return a part of a pattern in which each star but the last is passed once."""
    first, *between = part.split(_STAR)
    if not between:
        return part
    *inner, last = between
    return first + "".join(_once(f"[^/]*?{one}", groups) for one in inner) + _STAR + last


def _once(regex: str, groups: Iterator[int]) -> str:
    """Return a pattern whose first match is final (an atomic group, which 3.10 does not have)."""
    group = f"once{next(groups)}"
    return f"(?=(?P<{group}>{regex}))(?P={group})"
