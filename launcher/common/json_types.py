"""Parts of the types of JSON outputs, in addition to Python's own: see `formats`.

After its type, `Annotated` has keywords of the schema with their values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

Natural: TypeAlias = Annotated[int, ("minimum", 0)]
Positive: TypeAlias = Annotated[int, ("minimum", 1)]
Seconds: TypeAlias = Annotated[float, ("minimum", 0)]
ExitCode: TypeAlias = Annotated[int, ("minimum", 0), ("maximum", 255)]


def one_of(values: Iterable[object]) -> tuple[str, tuple[object, ...]]:
    """Return the keyword for a value that is one of these."""
    return "enum", tuple(values)
