"""Turns keyword arguments into the words of a command line: the options of dsrun by their names."""

from __future__ import annotations

import os

from ..cli.options import table
from .errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..cli.option import Option

PRINTS = dict.fromkeys(("help", "version"), "it only prints")
"""Words of the command line outside the table, and why a program cannot use them."""

LISTS = frozenset({"LIST", "RANKS", "ROLES", "MODULES", "CODES"})
"""Metavars of values with commas, for which a program may give a list."""


def words(options: Mapping[str, object]) -> list[str]:
    """Return options as words; an option with None or False is left out.

    Raises:
        LaunchError: there is no such option, or its value is of a wrong type.
    """
    return [word for name, value in options.items() for word in _words(name, value)]


def _words(name: str, value: object) -> Iterable[str]:
    _, spec = table().get("host" if name == "hosts" else name, ("", None))
    why = spec.not_in_python if spec else PRINTS.get(name)
    if why:
        raise LaunchError(f"{name}: not available in Python; {why}")
    if value is None or value is False:
        return
    flag = "--host" if name == "hosts" else f"--{name}"
    if spec is None or (spec.kind == "bool" and value is True):
        # The parser suggests options for one that does not exist.
        yield flag if value is True else f"{flag}={value}"
        return
    if spec.kind == "list":
        for one in _items(name, value):
            yield f"{flag}={one}"
    else:
        yield f"{flag}={_text(name, spec, value)}"


def _items(name: str, value: object) -> Iterable[str]:
    """Return the values of an option that may be given several times."""
    if isinstance(value, dict):
        return [f"{_plain(name, key)}={_plain(name, one)}" for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(name, one) for one in value]
    return [_plain(name, value)]


def _text(name: str, spec: Option, value: object) -> str:
    """Return the value of an option; a list for one that takes several with commas between."""
    if isinstance(value, (list, tuple)) and spec.metavar in LISTS:
        return ",".join(_plain(name, one) for one in value)
    return _plain(name, value)


def _plain(name: str, value: object) -> str:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return str(value)
    raise LaunchError(f"{name}: expected text or a number, not {type(value).__name__}")


def arguments(args: Iterable[object]) -> list[str]:
    """Return the arguments of a script as words.

    Raises:
        LaunchError: an argument is neither text, a path nor a number.
    """
    return [_plain(f"args[{at}]", one) for at, one in enumerate(args)]


def check_arguments(args: object) -> None:
    """Check that the arguments of a script or a function are a list, or something like it.

    Raises:
        LaunchError: the arguments are not a list.
    """
    if isinstance(args, (str, bytes)):
        raise LaunchError("args: expected a list of arguments, not a single string")
    if not hasattr(args, "__iter__"):
        kind = type(args).__name__
        raise LaunchError(f"args: expected a list of arguments, not {kind}: write [{args!r}]")
