"""Text from other programs, hosts and files: made safe to print, and JSON read from it. Pure.

`read_json` is the one way in for all JSON that the launcher reads, so that nothing in a document
can raise more than `ValueError`, there or later. Programs that run without dsrun's package have
what dsrun itself has sent to them; they alone read it by themselves.
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
"""Arrays and objects of JSON within each other; a report has eight."""

_LONGEST_FLOAT = 64

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")

# Control characters of both sets (ECMA-48) except tab and line feed, the characters that change the
# direction of text (Unicode TR9), and bytes that were no UTF-8 (PEP 383): they may be controls.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in {9, 10}},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)},
}


def plain(text: str) -> str:
    """Return `text` without colours, and with all other control characters escaped.

    So are halves of characters (lone surrogates), which cannot be encoded.
    """
    safe = _COLOUR.sub("", text).translate(_CONTROLS)
    return safe.encode("utf-8", "backslashreplace").decode()


def one_line(text: str) -> str:
    """Return text that a message quotes: on one line, whatever cannot be printed escaped."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )


def own_lines(text: str, name: str = "dsrun") -> str:
    """Return a message of a command as it is printed: safe, its name before each line."""
    return "".join(f"{name}: {line}\n" for line in plain(text).split("\n"))


def read_json(data: bytes | bytearray | str, pairs: Pairs | None = None) -> Any:
    """Return the value in a JSON document (RFC 8259), whoever has written it.

    Numbers are finite and as long as 64 bits need at most, and nesting is bounded. Types are for
    the caller to check, and text may have lone surrogates, which `plain` escapes.

    Args:
        data: the document; its size is for the caller to bound.
        pairs: makes an object of its members; None for a dict in which the last of a name counts.

    Raises:
        ValueError: it is not such a document; a JSONDecodeError where it is not JSON at all.
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
    """Go down level by level, as what is nested deeply is no work for recursion."""
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
