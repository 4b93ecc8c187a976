"""Numbers as schedulers write them into variables: plain digits, or it is an error."""

from __future__ import annotations

from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 2**32 - 1
"""The largest that one of them writes: Slurm has 32 bits for a step."""


def is_count(text: str) -> bool:
    """Return whether `text` is a number from 0 to `LARGEST`, without sign or blanks."""
    return text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= LARGEST


def number(
    environ: Mapping[str, str], variable: str, least: int = 0, most: int = LARGEST
) -> int | None:
    """Return the number in a variable, or None where it is not set.

    Raises:
        UsageError: It is no number from `least` to `most`.
    """
    text = environ.get(variable, "")
    if text and not (is_count(text) and least <= int(text) <= most):
        limits = f"from {least}" if most == LARGEST else f"from {least} to {most}"
        raise bad(variable, text, f"a number {limits}")
    return int(text) if text else None


def bad(where: str, text: str, expected: str) -> UsageError:
    """Return the error for a variable, or a line, whose text is not what was expected."""
    from .ranges import quoted

    return UsageError(f"{where}: {quoted(text)}: expected {expected}")
