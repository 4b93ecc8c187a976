"""The valid values of fields of specs and messages: their type hints, and a reader for each. Pure.

A spec or a message is a NamedTuple, and its form in JSON is a list of its fields in their order;
the fields of a frame have their names. The other end of a connection may be anybody, so a value is
accepted only if no later use can fail: integers fit into 64 bits, times are finite, text can be
written to a file. Nothing is guessed, and only classes that a hint names are made.
"""

from __future__ import annotations

import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Check: TypeAlias = Callable[[Any], bool]
    Reader: TypeAlias = Callable[[Any], Any]

# Each of these names a range of values of its type, which the table below checks.
Port = int
Size = int
Count = int
Rank = int
Pid = int
Id = int
Code = int
Signal = int
Name = str
Fields = dict[str, object]

LONGEST_NAME = 255
"""Characters of a host's name or address (RFC 1035, 2.3.4)."""

MOST = 1 << 62
"""Limit of every number."""

MOST_SLOTS = 1 << 16
MOST_RANKS = 1 << 32

_SIGNALS = {0, *map(int, signal.Signals)}


class Misfit(Exception):
    """A value that does not fit the type of its field; the message has the place and the type."""

    def within(self, where: str) -> Misfit:
        """Return a Misfit for the value that contains this one."""
        inner = str(self)
        return Misfit(f"{where}{'' if inner[:1] in '.[' else ': '}{inner}")


def reader(hint: str) -> Reader:
    """Return the reader for a type hint: a function that returns a value, or raises Misfit.

    Raises:
        KeyError: the hint names a type that is neither below nor registered.
    """
    known = _READERS.get(hint)
    if known is None:
        known = _READERS[hint] = _made(hint)
    return known


def fields(shape: type[Any]) -> dict[str, Reader]:
    """Return the readers of a class's fields."""
    known = _FIELDS.get(shape)
    if known is None:
        hints = shape.__annotations__.items()
        known = _FIELDS[shape] = {name: reader(hint) for name, hint in hints}
    return known


def register(*shapes: type[Any]) -> None:
    """Allow values of these classes in fields."""
    _SHAPES.update((shape.__name__, shape) for shape in shapes)


def register_texts(*names: str) -> None:
    """Allow any text in fields of these types, whose texts may differ in other versions."""
    _READERS.update(dict.fromkeys(names, _READERS["str"]))


def register_later(name: str, load: Callable[[], type[Any]]) -> None:
    """Allow values of a class in fields; `load` imports and returns the class when it is needed."""

    def read(value: Any) -> Any:
        return _shape(load())(value)

    _READERS[name] = read


def _made(hint: str) -> Reader:
    choices = _parts(hint, "|")
    if len(choices) > 1:
        # None first: reading it needs no class that is imported later.
        choices.sort(key=lambda one: one != "None")
        return _union(hint, [reader(one) for one in choices])
    name, bracket, rest = hint.partition("[")
    if not bracket:
        return _shape(_SHAPES[name])
    parts = [reader(one) for one in _parts(rest[:-1], ",") if one != "..."]
    return _GENERIC[name](hint, *parts)


def _parts(hint: str, separator: str) -> list[str]:
    """Split a type hint at each separator outside of brackets."""
    parts, depth = [""], 0
    for letter in hint:
        depth += (letter == "[") - (letter == "]")
        if letter == separator and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _plain(name: str, fits: Check) -> Reader:
    def read(value: Any) -> Any:
        if not fits(value):
            raise Misfit(f"expected {name}")
        return value

    return read


def _union(hint: str, choices: list[Reader]) -> Reader:
    def read(value: Any) -> Any:
        for choice in choices:
            try:
                return choice(value)
            except Misfit as misfit:
                found = str(misfit)
                if found[:1] in {".", "["} and isinstance(value, (list, tuple, dict)):
                    raise
        raise Misfit(f"expected {hint}")

    return read


def _tuple(hint: str, *items: Reader) -> Reader:
    """Return the reader of a tuple of any length, or of one with a type for each item."""
    if hint.endswith("...]"):
        return _many(hint, items[0], tuple)

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or len(value) != len(items):
            raise Misfit(f"expected {hint}")
        return tuple(_each(value, items))

    return read


def _many(hint: str, item: Reader, kind: Callable[[Any], Any] = frozenset) -> Reader:
    """Return the reader of a frozenset, or of a tuple of any length."""

    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple, frozenset)):
            raise Misfit(f"expected {hint}")
        return kind(_each(value, [item] * len(value)))

    return read


def _each(values: Any, readers: Any, names: Any = None) -> list[Any]:
    made: list[Any] = []
    try:
        for value, read in zip(values, readers, strict=True):
            made.append(read(value))
    except Misfit as misfit:
        raise misfit.within(f".{names[len(made)]}" if names else f"[{len(made)}]") from None
    return made


def _dict(hint: str, name: Reader, item: Reader) -> Reader:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise Misfit(f"expected {hint}")
        made = {}
        for key, one in value.items():
            try:
                made[name(key)] = item(one)
            except Misfit as misfit:
                raise misfit.within(f"[{str(key)[:40]!r}]") from None
        return made

    return read


def _shape(shape: type[Any]) -> Reader:
    names = list(shape.__annotations__)

    def read(value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) != len(names):
            raise Misfit(f"expected {shape.__name__}")
        return tuple.__new__(shape, _each(value, fields(shape).values(), names))

    return read


def _text(value: object) -> bool:
    """Accept text with undecodable bytes as lone surrogates (PEP 383), but no other surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def _name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_NAME and value.isprintable()


def _between(least: float, most: float) -> Check:
    """Return the check for integers from `least` to `most`; booleans are not accepted."""
    return lambda value: type(value) is int and least <= value <= most


def _number(value: object) -> bool:
    return type(value) in {int, float} and -MOST < value < MOST  # type: ignore[operator]


def _tail(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_text, value))


_GENERIC: dict[str, Callable[..., Reader]] = {"tuple": _tuple, "frozenset": _many, "dict": _dict}
_SHAPES: dict[str, type[Any]] = {}
_FIELDS: dict[type[Any], dict[str, Reader]] = {}

_SLOT = _between(0, MOST)
PLAIN: dict[str, Check] = {
    "None": lambda value: value is None,
    "str": _text,
    "Name": _name,
    "bool": lambda value: isinstance(value, bool),
    "int": _between(-MOST, MOST),
    "Size": _between(0, MOST),
    "Count": _between(0, MOST_SLOTS),
    "Rank": _between(0, MOST_RANKS),
    "Pid": _between(0, MOST_RANKS),
    "Id": _between(0, MOST_RANKS - 1),
    "Port": _between(0, 65535),
    "Code": _between(-64, 255),
    "Signal": lambda value: type(value) is int and value in _SIGNALS,
    "Slot": lambda value: _SLOT(value) or _text(value),
    "float": _number,
    "Fields": lambda value: isinstance(value, dict),
    "list[str]": _tail,
}
"""The check for each plain type; `list[str]` is a pair of texts, standard output and error, and
`Fields` are the fields of a message."""

_READERS: dict[str, Reader] = {name: _plain(name, fits) for name, fits in PLAIN.items()}
