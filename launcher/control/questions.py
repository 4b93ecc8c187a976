"""The two frames by which the runner asks a node anything, and a node answers.

A question is a row of its name, the type that asks it and the type that answers it, beside these
types: `STACKS = "stacks", StacksAsk, StacksAnswer`. `node/doors` says what answers it.
"""

from __future__ import annotations

from ..common.values import NamedTuple
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
        number: of the question; its answer has it as well.
        name: of its row.
        body: the fields of the type that asks it.
    """

    number: Id
    name: Name
    body: Fields


class ReplyMessage(NamedTuple):
    """REPLY: the answer to a QUESTION.

    Attributes:
        number: of the question.
        name: of its row.
        body: the fields of the type that answers it.
        more: seconds that the node still needs, if this says only that: the answer follows.
    """

    number: Id
    name: Name
    body: Fields
    more: float = 0.0


def pack_question(number: int, name: str, ask: NamedTuple) -> bytes:
    """Return a QUESTION."""
    return messages.pack(frames.QUESTION, QuestionMessage(number, name, ask._asdict()))


def pack_reply(number: int, name: str, answer: NamedTuple) -> bytes:
    """Return the REPLY with an answer."""
    return messages.pack(frames.REPLY, ReplyMessage(number, name, answer._asdict()))


def pack_more(number: int, name: str, seconds: float) -> bytes:
    """Return the REPLY that asks for so many seconds more."""
    return messages.pack(frames.REPLY, ReplyMessage(number, name, {}, seconds))
