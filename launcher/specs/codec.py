"""Converts a job to JSON values and back, for a hold and for programs that have jobs run.

The type hints of the fields decide how each value is written, and what is accepted: nothing is
guessed, and only the classes of the table below can be made. Texts are written as
`environment.to_wire` makes them, so that both ends may use different encodings of file names.
"""

from __future__ import annotations

from .. import __version__
from ..common.errors import UsageError
from ..common.values import NamedTuple
from . import environment
from .backend import BackendSettings
from .batch_plan import BatchPlan, BatchSettings
from .dial_in import DialIn
from .environment import Travel
from .hold import HoldSpec
from .host import Host
from .host_updates import HostFilter, HostUpdates
from .job import JobSpec
from .origin import Origin
from .plan import Node, Plan, Share
from .policies import (
    BindingPolicy,
    CheckPolicy,
    DebugPolicy,
    ElasticPolicy,
    HookPolicy,
    OutputPolicy,
    Rule,
    Streams,
    SupervisionPolicy,
    WatchPolicy,
    WorkerPolicy,
)
from .program import Program
from .rendezvous import Rendezvous
from .sync import SyncSpec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeAlias, TypeVar

    Shape = TypeVar("Shape", bound=tuple[object, ...])
    Convert: TypeAlias = Callable[[Any], Any]

MOST = 1 << 62
"""Limit of every number, as in the messages of a control line."""

SHAPES: tuple[type[Any], ...] = (
    *(BackendSettings, BatchPlan, BatchSettings, BindingPolicy, CheckPolicy, DebugPolicy, DialIn),
    *(
        ElasticPolicy,
        Host,
        HoldSpec,
        HostFilter,
        HostUpdates,
        HookPolicy,
        JobSpec,
        Node,
        Origin,
        OutputPolicy,
        Plan,
        Program,
    ),
    *(
        WorkerPolicy,
        Rendezvous,
        Rule,
        Share,
        Streams,
        SupervisionPolicy,
        SyncSpec,
        Travel,
        WatchPolicy,
    ),
)
"""The classes that can be converted."""

ALIASES = {"Slot": "int | str"}
"""Names in type hints that stand for other types."""


class Misfit(Exception):
    """A value is not of the type of its field; the text says where, and what was expected."""


class Codec(NamedTuple):
    """Converts the values of one type; both functions raise Misfit."""

    encode: Convert
    decode: Convert


def encode(value: tuple[object, ...]) -> dict[str, Any]:
    """Return one of the values of `SHAPES` as JSON values, with the version of dsrun.

    Raises:
        UsageError: a field has a value of another type.
    """
    name = type(value).__name__
    return {"dsrun": __version__, name: _convert(name, codec(name).encode, value)}


def decode(shape: type[Shape], message: object) -> Shape:
    """Return the value that `encode` was given.

    Raises:
        UsageError: it is of another version or class, a field is missing, unknown or not valid.
    """
    name = shape.__name__
    fields = message if isinstance(message, dict) else {}
    version = fields.get("dsrun")
    if version != __version__:
        raise UsageError(f"made by dsrun {str(version)[:40]}; this is dsrun {__version__}")
    if fields.keys() != {"dsrun", name}:
        raise UsageError(f"invalid {name}: expected the fields dsrun and {name}")
    made: Shape = _convert(name, codec(name).decode, fields[name])
    return made


def _convert(name: str, convert: Convert, value: object) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        raise UsageError(f"invalid {name}: {misfit}") from None


def codec(text: str) -> Codec:
    """Return the codec of a type hint.

    Raises:
        KeyError: it names a type that cannot be converted.
    """
    known = _CODECS.get(text)
    if known is None:
        known = _CODECS[text] = _made(ALIASES.get(text, text))
    return known


def _made(text: str) -> Codec:
    choices = _parts(text, "|")
    if len(choices) > 1:
        return _union(text, [codec(one) for one in choices])
    name, bracket, rest = text.partition("[")
    if not bracket:
        return _shape({shape.__name__: shape for shape in SHAPES}[name])
    return _GENERIC[name](text, [codec(one) for one in _parts(rest[:-1], ",") if one != "..."])


def _parts(text: str, separator: str) -> list[str]:
    """Split a type hint where the separator is not within brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == separator and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _plain(name: str, fits: Callable[[Any], bool]) -> Codec:
    """Return the codec of values that JSON has itself."""

    def same(value: Any) -> Any:
        if not fits(value):
            raise Misfit(f"expected {name}")
        return value

    return Codec(same, same)


def _text() -> Codec:
    def write(value: Any) -> str:
        try:
            return environment.to_wire(value)
        except (TypeError, UnicodeError):
            raise Misfit("expected str") from None

    def read(value: Any) -> str:
        try:
            return environment.text_from_wire(value)
        except (AttributeError, UnicodeError):
            raise Misfit("expected str") from None

    return Codec(write, read)


def _union(text: str, choices: list[Codec]) -> Codec:
    def first(converts: list[Convert], value: Any) -> Any:
        for convert in converts:
            try:
                return convert(value)
            except Misfit:
                continue
        raise Misfit(f"expected {text}")

    writes, reads = [one.encode for one in choices], [one.decode for one in choices]
    return Codec(lambda value: first(writes, value), lambda value: first(reads, value))


def _tuple(text: str, items: list[Codec]) -> Codec:
    """Return the codec of a tuple of any length, or of one with a type for each item."""
    length = None if text.endswith("...]") else len(items)

    def convert(converts: list[Convert], value: Any) -> list[Any]:
        if length not in {None, len(value)}:
            raise Misfit(f"expected {text}")
        converts = converts * len(value) if length is None else converts
        return [_at(f"[{at}]", converts[at], one) for at, one in enumerate(value)]

    writes, reads = [one.encode for one in items], [one.decode for one in items]
    return Codec(
        lambda value: convert(writes, _of(tuple, text, value)),
        lambda value: tuple(convert(reads, _of(list, text, value))),
    )


def _frozenset(text: str, items: list[Codec]) -> Codec:
    (item,) = items
    return Codec(
        lambda value: sorted(map(item.encode, _of(frozenset, text, value))),
        lambda value: frozenset(map(item.decode, _of(list, text, value))),
    )


def _dict(text: str, items: list[Codec]) -> Codec:
    names, values = items

    def convert(name: Convert, one: Convert, value: Any) -> dict[str, Any]:
        found = _of(dict, text, value).items()
        return {name(key): _at(f"[{key!r}]", one, part) for key, part in found}

    return Codec(
        lambda value: convert(names.encode, values.encode, value),
        lambda value: convert(names.decode, values.decode, value),
    )


def _shape(shape: type[Any]) -> Codec:
    """Return the codec of a class of the table: an object with exactly its fields."""
    hints = shape.__annotations__
    codecs = [(name, codec(hint)) for name, hint in hints.items()]

    def write(value: Any) -> dict[str, Any]:
        fields = zip(codecs, _of(shape, shape.__name__, value), strict=True)
        return {name: _at(f".{name}", one.encode, part) for (name, one), part in fields}

    def read(value: Any) -> Any:
        fields = _of(dict, shape.__name__, value)
        if fields.keys() != hints.keys():
            odd = sorted(map(str, fields.keys() ^ hints.keys()))
            raise Misfit(f"missing or unknown field {odd[0][:40]!r} of {shape.__name__}")
        return shape(*[_at(f".{name}", one.decode, fields[name]) for name, one in codecs])

    return Codec(write, read)


def _of(kind: type[Any], text: str, value: Any) -> Any:
    if type(value) is not kind:
        raise Misfit(f"expected {text}")
    return value


def _at(where: str, convert: Convert, value: Any) -> Any:
    try:
        return convert(value)
    except Misfit as misfit:
        inner = str(misfit)
        raise Misfit(f"{where}{'' if inner[:1] in '.[' else ': '}{inner}") from None


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and -MOST < value < MOST


_GENERIC = {"tuple": _tuple, "frozenset": _frozenset, "dict": _dict}

_CODECS: dict[str, Codec] = {
    "str": _text(),
    "bool": _plain("bool", lambda value: type(value) is bool),
    "int": _plain("int", lambda value: type(value) is int and _is_number(value)),
    "float": _plain("float", _is_number),
    "None": _plain("None", lambda value: value is None),
}
"""The codecs that are made so far, by type hint."""
