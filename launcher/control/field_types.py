"""Checks for the fields of messages, one for every type that `messages` uses. Pure.

The other end of a connection may be anybody, so a value is accepted only if nothing that is done
with it can fail: integers fit into 64 bits, times are finite, text can be written to a file.
"""

from __future__ import annotations

import signal

from ..specs.policies import BindingPolicy
from ..specs.program import Program
from ..specs.rendezvous import Rendezvous
from .frames import MOST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, TypeAlias

    Check: TypeAlias = Callable[[Any], bool]

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

LONGEST_NAME = 255
"""Characters of a host's name or address (RFC 1035, 2.3.4)."""

MOST_SLOTS = 1 << 16
MOST_RANKS = 1 << 32

_SIGNALS = {0, *map(int, signal.Signals)}


def row(shape: Any, **also: Check) -> Check:
    """Return the check for a list with one value for each field of a message, in order.

    `also` has checks of fields whose types are not in the table.
    """
    fields = shape.__annotations__.items()
    return lambda value: (
        isinstance(value, (list, tuple))
        and len(value) == len(fields)
        and all(
            (also.get(name) or CHECKS[kind])(one)
            for (name, kind), one in zip(fields, value, strict=True)
        )
    )


def rows(shape: Any) -> Check:
    """Return the check for a list of such lists."""
    return _list(row(shape))


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


def _list(check: Check) -> Check:
    return lambda value: isinstance(value, (tuple, list)) and all(map(check, value))


def _dict(check: Check) -> Check:
    return lambda value: (
        isinstance(value, dict) and all(map(_text, value)) and all(map(check, value.values()))
    )


def _tail(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_text, value))


def _slot(value: object) -> bool:
    return _between(0, MOST)(value) or _text(value)


def _facts(value: object) -> bool:
    """Accept the facts of a node; the module is imported where they are asked for."""
    from . import facts

    return facts.is_valid(value)


def _network(value: object) -> bool:
    """Accept the network of a node; as with facts."""
    from . import reach_messages

    return reach_messages.is_valid(value)


def _or_none(checks: Mapping[str, Check], names: Iterable[str]) -> dict[str, Check]:
    def optional(check: Check) -> Check:
        return lambda value: value is None or check(value)

    return {f"{name} | None": optional(checks[name]) for name in names}


CHECKS: dict[str, Check] = {
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
    "float": _number,
    "tuple[str, ...]": _list(_text),
    "tuple[Name, ...]": _list(_name),
    "tuple[int, ...]": _list(_between(-MOST, MOST)),
    "tuple[Rank, ...]": _list(_between(0, MOST_RANKS)),
    "tuple[Pid, ...]": _list(_between(0, MOST_RANKS)),
    "tuple[Slot, ...]": _list(_slot),
    "dict[str, str]": _dict(_text),
    "dict[str, int]": _dict(_between(-MOST, MOST)),
    "dict[str, list[str]]": _dict(_tail),
    "tuple[dict[str, str], ...]": _list(_dict(_text)),
    "Program": row(Program),
    "BindingPolicy": row(BindingPolicy),
    "Rendezvous": row(Rendezvous),
    "Facts": _facts,
    "Network": _network,
}
CHECKS |= _or_none(
    CHECKS,
    ("str", "int", "Port", "Rendezvous", "Facts", "Network", "tuple[Slot, ...]", "dict[str, str]"),
)
"""The check for each annotation that a message has."""
