"""The two frames of questions: one by which the runner asks a node, one by which the node answers.

A question is a row of its name, the type of its request and the type of its answer, beside these
types: `STACKS = "stacks", StacksAsk, StacksAnswer`. `node/doors` lists the functions that answer.
"""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import Fields, Id, Name
from . import frames, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias, TypeVar

    Ask = TypeVar("Ask", bound=NamedTuple)
    Answer = TypeVar("Answer", bound=NamedTuple)
    Question: TypeAlias = tuple[str, type[Ask], type[Answer]]


class QuestionMessage(NamedTuple):
    """QUESTION: answer this.

    Attributes:
        number: the number of the question; its answer has this number, too.
        name: the name of the question's row.
        body: the fields of the request's type.
    """

    number: Id
    name: Name
    body: Fields


class ReplyMessage(NamedTuple):
    """REPLY: the answer to a QUESTION.

    Attributes:
        name: the name of the question's row.
        body: the fields of the answer's type.
        more: seconds that the node still needs, if this says only that: the answer follows.
        failed: the fault of dsrun there that has prevented an answer; else "".
    """

    number: Id
    name: Name
    body: Fields
    more: float = 0.0
    failed: str = ""


def pack_question(number: int, name: str, ask: NamedTuple) -> bytes:
    """Return a QUESTION."""
    return messages.pack(frames.QUESTION, QuestionMessage(number, name, ask._asdict()))


def pack_reply(number: int, name: str, answer: NamedTuple) -> bytes:
    """Return the REPLY with an answer."""
    return messages.pack(frames.REPLY, ReplyMessage(number, name, answer._asdict()))


def pack_more(number: int, name: str, seconds: float) -> bytes:
    """Return the REPLY that asks for more time, in seconds."""
    return messages.pack(frames.REPLY, ReplyMessage(number, name, {}, seconds))


def pack_failure(number: int, name: str, why: str) -> bytes:
    """Return the REPLY that says why there is no answer."""
    return messages.pack(frames.REPLY, ReplyMessage(number, name, {}, failed=why))
