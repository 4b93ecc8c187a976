"""A row of the table of failures. Pure."""

from __future__ import annotations

import re

from ...common.records import NamedTuple
from ...specs.verdict import FailureClass, Retry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

UNKNOWN = FailureClass.UNKNOWN
PERHAPS = Retry.UNKNOWN


class Row(NamedTuple):
    """A pattern for a failure, and its explanation.

    Attributes:
        name: the name of the row, for tests.
        said: texts, one of which must occur, case-sensitively; () for any text.
        sentence: the explanation, with `{name}` for a group of the pattern; "" if the program's own
            words are enough.
        advice: the remedy, or "".
        raised: names of the exception's class; () for any.
        pattern: a regular expression that the text must match, too.
        needs: the evidence that the node must have found, by its first word.
        finds: evidence that the node may have found; it replaces the sentence.
        codes: the exit codes of such a program; () for all. Only for lines.
        signals: the signals that end such a worker; () for all failures.
        echo: whether the end of another rank may be the cause.
        apart: whether it is a line of a scheduler, which counts more than an exception.
        by_sample: whether data may be the cause if a data loader raises it.
    """

    name: str
    kind: FailureClass = UNKNOWN
    retry: Retry = PERHAPS
    said: tuple[str, ...] = ()
    sentence: str = ""
    advice: str = ""
    raised: tuple[str, ...] = ()
    pattern: str = ""
    needs: str = ""
    finds: str = ""
    codes: tuple[int, ...] = ()
    signals: tuple[int, ...] = ()
    echo: bool = False
    apart: bool = False
    by_sample: bool = False


def said(*texts: str) -> tuple[str, ...]:
    """Return the texts by which a row recognizes a failure: words of other programs."""
    return texts


def fits(row: Row, text: str, name: str = "") -> Mapping[str, str] | None:
    """Return the groups that a row's pattern captures, None if the row does not fit."""
    if row.raised and name not in row.raised:
        return None
    if row.said and not any(one in text for one in row.said):
        return None
    if not row.pattern:
        return {}
    match = re.search(row.pattern, text, re.MULTILINE)  # compiled only where the words are found
    return match and {key: value or "" for key, value in match.groupdict().items()}
