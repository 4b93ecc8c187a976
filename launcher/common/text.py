"""Text from other programs, hosts and files: made safe to print, and JSON read from it. Pure.

All JSON that the launcher reads goes through `read_json`, so that no document can raise anything
but `ValueError`, then or later. The only exceptions are programs that run without dsrun's package,
which read JSON from dsrun itself.
"""

from __future__ import annotations

import re
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    import json
    from collections.abc import Callable
    from typing import Any, TypeAlias

    Pairs: TypeAlias = Callable[[list[tuple[str, Any]]], dict[str, Any]]

DIGITS = 20
"""Digits of the longest integer in JSON: 64 bits and a sign."""

DEPTH = 64
"""Greatest depth of nested arrays and objects in JSON; a report has eight levels."""

_LONGEST_FLOAT = 64

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")

# Control characters of both sets (ECMA-48) except tab and line feed, characters that change the
# direction of text (Unicode TR9), and bytes that were not UTF-8 (PEP 383), which may be controls.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in {9, 10}},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)},
}


def plain(text: str) -> str:
    """Return `text` without colours, and with all other control characters escaped.

    Lone surrogates, which cannot be encoded, are escaped as well.
    """
    safe = _COLOUR.sub("", text).translate(_CONTROLS)
    return safe.encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """Return text for quotation in a message: on one line, unprintable characters escaped."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def own_lines(text: str, name: str = "dsrun") -> str:
    """Return a message of a command in its printed form: safe, with the name before each line."""
    return "".join(f"{name}: {line}\n" for line in plain(text).split("\n"))


def read_json(data: bytes | bytearray | str, pairs: Pairs | None = None) -> Any:
    """Return the value of a JSON document (RFC 8259) from any source.

    Numbers are finite and have at most the digits that 64 bits need, and nesting is limited. The
    caller must check types. Text may have lone surrogates, which `plain` escapes.

    Args:
        data: the document; the caller must limit its size.
        pairs: makes an object from its members; None for a dict in which the last of equal names
            counts.

    Raises:
        ValueError: the document is invalid; a JSONDecodeError if it is no JSON.
    """
    text = data if isinstance(data, str) else data.decode()
    try:
        value = _decoder(pairs).decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except MemoryError:
        raise ValueError("too large for memory") from None
    _check_depth(value)
    return value


@cache
def _decoder(pairs: Pairs | None) -> json.JSONDecoder:
    import json  # not every command needs it

    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_int=_whole,
        parse_float=_finite,
        parse_constant=_not_a_number,
    )


def _whole(digits: str) -> int:
    if len(digits) > DIGITS:
        raise ValueError(f"a number with {len(digits)} digits")
    return int(digits)


def _finite(digits: str) -> float:
    if len(digits) > _LONGEST_FLOAT or abs(number := float(digits)) == float("inf"):
        raise ValueError(f"{digits[:_LONGEST_FLOAT]} is not a 64-bit number")
    return number


def _not_a_number(name: str) -> float:
    raise ValueError(f"{name} is not a number")


def _check_depth(value: object) -> None:
    """Check the depth level by level, because deep nesting would exhaust recursion."""
    level = [value]
    for _ in range(DEPTH):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                inner += one.values()
            elif isinstance(one, list):
                inner += one
        if not inner:
            return
        level = inner
    if any(isinstance(one, (dict, list)) for one in level):
        raise ValueError(f"nested more than {DEPTH} deep")
