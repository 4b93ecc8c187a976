"""Records the variables that modules read and set during import."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from contextlib import contextmanager

from . import node_libraries as libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from types import FrameType

    Environment = Mapping[bytes, bytes]
    Changes = Mapping[bytes, bytes | None]

_THROUGH = {__name__, "os", "collections.abc"}
"""Modules that read variables for others."""


@contextmanager
def observed() -> Iterator[set[str]]:
    """Yield the set of the variables that are read from `os.environ` until the end of the block.

    Iterating over the environment counts as reading every variable in it.
    """
    names: set[str] = set()

    def note(key: str | bytes) -> None:
        reader, name = _reader(), os.fsdecode(key)
        if reader not in libraries.KEEP_RANK and name.startswith(
            libraries.SELECTIVE.get(reader, "")
        ):
            names.add(name)

    class Observed(os._Environ):  # type: ignore[type-arg]
        def __getitem__(self, key: str | bytes) -> str | bytes:
            note(key)
            return super().__getitem__(key)  # type: ignore[no-any-return]

        def __iter__(self) -> Iterator[str | bytes]:
            for key in super().__iter__():
                note(key)
                yield key

    # Modules may hold references to these objects, which must stay.
    both, plain = (os.environ, os.environb), type(os.environ)
    for one in both:
        one.__class__ = Observed
    try:
        yield names
    finally:
        for one in both:
            one.__class__ = plain


def _reader() -> str:
    """Return the name of the module that reads a variable."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _THROUGH:
        frame = frame.f_back
    return frame.f_globals.get("__name__", "") if frame is not None else ""


def initial() -> dict[bytes, bytes]:
    """Return the variables that this process was started with; Python itself may set LC_CTYPE."""
    with open("/proc/self/environ", "rb") as file:
        pairs = [entry.partition(b"=") for entry in file.read().split(b"\0")]
    return {name: value for name, equals, value in pairs if equals}


def current() -> dict[bytes, bytes]:
    """Return the variables of this process."""
    return dict(os.environb)


def values(names: Iterable[str], environment: Environment) -> dict[str, str | None]:
    """Return the values of these variables and of all that libraries in C read; null if not set."""
    taken = {os.fsencode(name) for name in names}
    taken |= {name for name in environment if os.fsdecode(name).startswith(libraries.PREFIXES)}
    found = {name: environment.get(name) for name in sorted(taken)}
    return {text(name): None if v is None else text(v) for name, v in found.items()}


def changes(before: Environment, after: Environment) -> dict[bytes, bytes | None]:
    """Return the variables that were set or, with None, removed."""
    gone = dict.fromkeys(before.keys() - after.keys())
    return gone | {name: value for name, value in after.items() if before.get(name) != value}


def replace(environment: Environment, changed: Changes) -> None:
    """Give this process these variables, then make these changes.

    No other variables remain, not even those that only C knows.
    """
    os.environb.clear()
    ctypes.CDLL(None).clearenv()
    os.environb.update(environment)
    _change(changed)
    time.tzset()


def change_again(changed: Changes, before: Environment) -> None:
    """Make the changes of an import to variables that are still as in `before`."""
    _change({n: v for n, v in changed.items() if os.environb.get(n) == before.get(n)})


def _change(changed: Changes) -> None:
    for name, value in changed.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value


def text(data: bytes) -> str:
    """Return bytes in the form for messages."""
    return data.decode("utf-8", "surrogateescape")


def data(text: str) -> bytes:
    """Return the bytes of a text from a message."""
    return text.encode("utf-8", "surrogateescape")
