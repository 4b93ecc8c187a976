"""Finds the objects that cannot be pickled, in arguments and in references of a function."""

from __future__ import annotations

import functools
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeAlias

    Part: TypeAlias = tuple[str, Any]
    Dumps: TypeAlias = Callable[[Any], bytes]

DEPTH = 8
"""Depth to which values that contain others are examined."""

MANY = 1000
"""Number of items of one value that are tried."""


def culprit(parts: Iterable[Part], dumps: Dumps) -> tuple[str, Exception] | None:
    """Return the innermost value that cannot be pickled, in words, and the error, or None.

    Args:
        parts: (words, value) of the objects to search.
        dumps: raises an exception for a value that cannot be pickled.
    """
    return _search(parts, dumps, set(), DEPTH)


def _search(
    parts: Iterable[Part], dumps: Dumps, seen: set[int], depth: int
) -> tuple[str, Exception] | None:
    for words, value in parts:
        if id(value) in seen:
            continue
        seen.add(id(value))
        try:
            dumps(value)
        except Exception as error:
            inner = _search(_parts(words, value), dumps, seen, depth - 1) if depth else None
            return inner or (words, error)
    return None


def _parts(words: str, value: Any) -> Iterator[Part]:
    """Yield the parts and references of a value; at most `MANY` items."""
    made = _inner(words, value)
    for _, part in zip(range(MANY), made, strict=False):
        yield part


def _inner(words: str, value: Any) -> Iterator[Part]:
    if isinstance(value, types.FunctionType):
        yield from _of_function(words, value)
    elif isinstance(value, types.MethodType):
        yield from ((words, value.__func__), (f"{words}.__self__", value.__self__))
    elif isinstance(value, functools.partial):
        yield f"{words}.func", value.func
        yield f"{words}.args", value.args
        yield f"{words}.keywords", value.keywords
    elif isinstance(value, dict):
        yield from ((f"{words}[{key!r:.40}]", one) for key, one in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"{words}[{at}]", one) for at, one in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from ((f"an item of {words}", one) for one in value)
    elif hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
        yield from ((f"{words}.{name}", one) for name, one in vars(value).items())


def _of_function(words: str, function: types.FunctionType) -> Iterator[Part]:
    """Yield the variables that a function uses: of outer functions, global ones, and defaults."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        try:
            yield f"{name} in {words}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield f"{name} in {words}", function.__globals__[name]
    for at, default in enumerate(function.__defaults__ or ()):
        yield f"default {at} of {words}", default
    for name, default in (function.__kwdefaults__ or {}).items():
        yield f"default {name} of {words}", default


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code, and nested code, uses."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return {*code.co_names}.union(*map(_names, inner))
