"""Words in the text of an option."""

from __future__ import annotations

import shlex

from .errors import UsageError


def shell_words(where: str, text: str) -> tuple[str, ...]:
    """Split text as a shell does; `where` names the option in messages.

    Raises:
        UsageError: a quotation is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{where} {text!r}: {error}") from None
