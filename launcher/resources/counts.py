"""Parse the numbers that schedulers write into variables: digits only, else it is an error."""

from __future__ import annotations

from ..common.errors import UsageError
from .ranges import LARGEST, is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def number(
    environ: Mapping[str, str], variable: str, least: int = 0, most: int = LARGEST
) -> int | None:
    """Return the number in a variable, or None if it is not set.

    Raises:
        UsageError: the value is not a number from `least` to `most`.
    """
    text = environ.get(variable, "")
    if text and not (is_count(text) and least <= int(text) <= most):
        above = f"a whole number, {least} or more"
        raise bad(variable, text, above if most == LARGEST else f"a number from {least} to {most}")
    return int(text) if text else None


def bad(where: str, text: str, expected: str) -> UsageError:
    """Return the error for a variable, or a line of a file, that is malformed."""
    from .ranges import quoted

    return UsageError(f"{where}: {quoted(text)}: expected {expected}")
