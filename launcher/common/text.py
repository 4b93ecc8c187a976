"""Make text from other programs and hosts safe to print. Pure."""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*[mK]")

# Control characters of both sets (ECMA-48) except tab and line feed, the characters that change the
# direction of text (Unicode TR9), and bytes that were no UTF-8 (PEP 383): they may be controls.
_CONTROLS = {
    **{code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in {9, 10}},
    **{code: f"\\u{code:04x}" for code in (*range(0x202A, 0x202F), *range(0x2066, 0x206A))},
    **{0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)},
}


def plain(text: str) -> str:
    """Return `text` without colours, and with all other control characters escaped."""
    return _COLOUR.sub("", text).translate(_CONTROLS)


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
