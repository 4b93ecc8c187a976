"""Lists of exit codes, as options have them. Pure."""

from __future__ import annotations

from .errors import UsageError


def exit_codes(option: str, text: str) -> list[int]:
    """Read `75,143`; an empty text is no code.

    Raises:
        UsageError: one is no exit code of a failure.
    """
    words = [word.strip() for word in text.split(",")] if text else []
    for word in words:
        if not (word.isascii() and word.isdigit() and 1 <= int(word) <= 255):
            raise UsageError(f"{option}: expected exit codes 1 to 255, not {word!r}: 75,143")
    return [int(word) for word in words]
