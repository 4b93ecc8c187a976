"""Options in TOML files: the values that they accept, and the line of each key.

Python has `tomllib` from 3.11 on, which does not give the lines of keys: the text is searched.
"""

from __future__ import annotations

import re
import sys

from ..common import files
from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.text import one_line
from .options import all_options, table
from .parser import nearest, record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from .option import Option

    Values = dict[str, object]
    Lines = dict[tuple[str, ...], int]

LIMIT = 1 << 16
"""Bytes; the largest file."""

DOTS = 64
"""Most dots on a line, outside of quotes and comments: the time of a key grows with their square.

(65,536 bytes of dots take tomllib of Python 3.11 half a minute.)
"""

DEPTH = 64
"""Most brackets that are open at once: each costs the parser's stack some frames."""

WORD = 256
"""Most characters of a word that is not in quotes; Python can print a number of that size."""


class Setting(NamedTuple):
    """One key of a table.

    Attributes:
        where: the file and line.
        key: the key as written.
        value: its value, of a type that the option takes.
    """

    name: str
    where: str
    key: str
    value: Any


def read(path: str, data: bytes) -> tuple[dict[str, Any], Lines]:
    """Return the contents of a file, and the line of each key.

    Args:
        path: the name of the file in errors.
        data: its contents, at most `LIMIT` bytes.

    Raises:
        UsageError: the file is invalid TOML, or would take long to read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError:
            from ..common.packages import lacks

            raise UsageError(f"{path}: {lacks('tomli', 'reads it')}") from None
    text = files.text(data, path)
    _check_costs(path, text)
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        from .toml_words import fault

        number, words = fault(text, str(error))
        raise UsageError(f"{path}:{number}: {words}") from None
    return document, lines_of(text)


# An unterminated string extends to the end of its line or file: no text is scanned twice.
TOKEN = r"""(?sx)
    ["]{3} (?: \\. | [^\\] )*? (?: "{3,5} | \\?\Z ) | " (?: \\[^\n] | [^"\\\n] )* "?
    | '{3} .*? (?: '{3,5} | \Z ) | ' [^'\n]* '?
    | \#[^\n]* | [\w+:-]+ | [\[\]{}.\n]
"""
"""The tokens of a text that matter: brackets, words and dots."""


def _check_costs(path: str, text: str) -> None:
    """Check for contents that make a TOML parser slow, or exhaust its stack. Linear.

    Raises:
        UsageError: there is too much of such content.
    """
    number, dots, depth = 1, 0, 0
    for match in re.finditer(TOKEN, text):
        token = match[0]
        dots = 0 if "\n" in token else dots + (token == ".")
        depth += _NESTING.get(token, 0)
        number += token.count("\n")
        word = 0 if token[0] in "\"'#" else len(token)
        for found, (most, what) in zip((dots, depth, word), _MOST, strict=True):
            if found > most:
                raise UsageError(f"{path}:{number}: more than {most} {what}")


_NESTING = {"[": 1, "{": 1, "]": -1, "}": -1}

_MOST = (
    (DOTS, "dots on a line outside quotes"),
    (DEPTH, "nested brackets"),
    (WORD, "characters in an unquoted word"),
)


def setting(
    where: str,
    key: str,
    value: object,
    unfit: Callable[[Option], str],
    also: Mapping[str, str] | None = None,
) -> Setting:
    """Return one key of a table, if it is an option that the file may set.

    Args:
        where: the file and line.
        key: the key as written.
        value: its value.
        unfit: returns why the file cannot set an option, "" if it can.
        also: further names of options.

    Raises:
        UsageError: the key is not such an option, or its value is not of the option's type.
    """
    names = {name: found for name, found in table().items() if not name.startswith("-")}
    names |= {other: names[name] for other, name in (also or {}).items()}
    typed, key = key.replace("-", "_"), one_line(key)
    if typed not in names:
        raise UsageError(f"{where}: {key}: unknown option{meant(typed, names)}; see dsrun --help")
    name, row = names[typed]
    why = unfit(row)
    if why:
        raise UsageError(f"{where}: {key}: {why}")
    if not _fits(row, value):
        raise UsageError(f"{where}: {key}: expected {type_of(row)}, not {shown(value)}")
    return Setting(name, where, key, value)


def meant(key: str, names: Iterable[str]) -> str:
    """Return a hint at the name most similar to a key, or ""."""
    close = nearest(key, names)
    return f" (did you mean {one_line(close)}?)" if close else ""


def _fits(row: Option, value: object) -> bool:
    if isinstance(value, bool) or row.kind == "bool":
        return isinstance(value, bool) and row.kind == "bool"
    if isinstance(value, list):
        return row.repeatable and all(
            isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in value
        )
    return isinstance(value, (str, int, float))


def type_of(row: Option) -> str:
    """Return the type of an option in TOML, in words."""
    if row.kind == "bool":
        return "true or false"
    one = {"int": "a whole number", "seconds": "a number of seconds or a string such as '30m'"}
    return f"{one.get(row.kind, 'a string')}{' or a list of them' if row.repeatable else ''}"


def shown(value: object) -> str:
    """Return a TOML value in the form for errors."""
    kinds = {bool: str(value).lower(), str: repr(value), dict: "a table", list: "a list"}
    return kinds.get(type(value), str(value))


def record_setting(one: Setting, values: Values) -> None:
    """Set the value of an option from a setting, or add to the value.

    Raises:
        UsageError: the value is invalid.
    """
    row = all_options()[one.name]
    if row.kind == "bool":
        values[one.name] = one.value
        return
    texts = one.value if isinstance(one.value, list) else [one.value]
    for at, text in enumerate(texts):
        record(one.name, row, str(text), f"{one.where}: {one.key}", values, again=at > 0)


# -- lines ----------------------------------------------------------------------------------------

# Keys are written bare, or in quotes; escapes in quotes are not looked at.
_PART = r"""(?:"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEY = rf"({_PART}(?:[ \t]*\.[ \t]*{_PART})*)"
_HEADER = re.compile(rf"[ \t]*\[[ \t]*{_KEY}[ \t]*\]")
_ARRAY = re.compile(rf"[ \t]*\[\[[ \t]*{_KEY}[ \t]*\]\]")
_SETTING = re.compile(rf"[ \t]*{_KEY}[ \t]*=")


def lines_of(text: str) -> Lines:
    """Return the line of every table and of every key that begins a line.

    A table without a header has the line of its first inner table. The third table of an array
    `role` is `("role", "2")`.
    """
    found: Lines = {}
    for one in keys(text):
        found.setdefault(one.path, one.number)
    for key, number in [*found.items()]:
        for length in range(len(key) - 1, 0, -1):
            found.setdefault(key[:length], number)
    return found


class Key(NamedTuple):
    """A key, or the name of a table, on its own line.

    Attributes:
        path: the path, with the numbers of tables in arrays.
        name: the path without these numbers, as written.
        number: the line, from 1.
        header: whether it is the name of a table.
    """

    path: tuple[str, ...]
    name: tuple[str, ...]
    number: int
    header: bool


def keys(text: str) -> Iterator[Key]:
    """Yield every key and table name that has its own line."""
    header: tuple[str, ...] = ()
    arrays: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := _ARRAY.match(line):
            name = match[1].strip("\"'")
            arrays[name] = arrays.get(name, -1) + 1
            header = (name, str(arrays[name]))
            yield Key(header, (name,), number, header=True)
        elif match := _HEADER.match(line):
            first, *rest = _parts(match[1])
            header = (first, *([str(arrays[first])] if first in arrays else []), *rest)
            yield Key(header, (first, *rest), number, header=True)
        elif match := _SETTING.match(line):
            parts = _parts(match[1])
            yield Key((*header, *parts), parts, number, header=False)


def _parts(key: str) -> tuple[str, ...]:
    return tuple(part.strip("\"'") for part in re.findall(_PART, key))


def line(lines: Lines, key: tuple[str, ...]) -> int:
    """Return the line of a key, or else of the nearest table around it."""
    around = (key[:length] for length in range(len(key), 0, -1))
    return next((lines[one] for one in around if one in lines), 1)
