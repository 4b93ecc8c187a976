"""Convert and parse exit codes. Pure."""

from __future__ import annotations

from .errors import UsageError


def as_shell(code: int) -> int:
    """Return the code that a shell reports: -N, for signal N, becomes 128 + N (POSIX, 2.8.2)."""
    return code if code >= 0 else 128 - code


def exit_codes(option: str, text: str) -> list[int]:
    """Parse a list such as `75,143`; an empty text is an empty list.

    Raises:
        UsageError: an item is not a number from 1 to 255.
    """
    words = [word.strip() for word in text.split(",")] if text else []
    for word in words:
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= 255):
            raise UsageError(
                f"{option}: expected exit codes 1 to 255, such as 75,143, not {word!r}"
            )
    return [int(word) for word in words]
