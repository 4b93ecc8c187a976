"""The result or exception of a rank's function, from the report of `node/call.py`.

This is the only place outside of the workers where anything is unpickled. The report comes from the
ranks of the program's own job; runner and node launchers have passed it on unread.
"""

from __future__ import annotations

import pickle

from ..common.records import NamedTuple
from ..common.text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Outcome(NamedTuple):
    """The report of one rank.

    Attributes:
        error: the exception that the rank raised, or the reason why the value cannot be unpickled
            here; None without an error.
        words: the exception in words, or "".
        traceback: its traceback as text.
        raised: whether it has raised an exception.
    """

    value: Any = None
    error: BaseException | None = None
    words: str = ""
    traceback: str = ""
    raised: bool = False


def outcome_of(report: bytes | bytearray) -> Outcome | None:
    """Return the report of a rank; None if it has not sent a complete one."""
    line, end, body = bytes(report).partition(b"\n")
    try:
        head = read_json(line)
        state, size = head["state"], head["size"]
        words, traceback = str(head["words"]), str(head["text"])
    except (ValueError, KeyError, TypeError):
        return None
    if not end or size != len(body):
        return None
    value, failure = _loaded(body)
    if state == "raised":
        error = value if isinstance(value, BaseException) else None
        return Outcome(None, error, words, traceback, True)
    if failure is not None:
        return Outcome(None, failure, f"its result cannot be unpickled here: {failure}", "", True)
    return Outcome(value)


def _loaded(body: bytes) -> tuple[Any, Exception | None]:
    """Return an unpickled value, or the exception of unpickling it."""
    if not body:
        return None, None
    try:
        return pickle.loads(body), None
    except Exception as error:
        return None, error
