"""Questions and replies as frames, for tests that speak for one end of a control line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dsrun.launcher.control import frames, messages, questions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsrun.launcher.control.questions import Answer, Question


def question(row: Question[Any, Any], ask: NamedTuple, number: int = 1) -> bytes:
    """Return the body of a QUESTION."""
    return questions.pack_question(number, row[0], ask)[5:]


def reply(row: Question[Any, Any], answer: NamedTuple, number: int = 1) -> bytes:
    """Return a REPLY."""
    return questions.pack_reply(number, row[0], answer)


def replies(received: Iterable[tuple[int, bytes]]) -> list[questions.ReplyMessage]:
    """Return the REPLYs among these frames."""
    bodies = [body for kind, body in received if kind == frames.REPLY]
    return [messages.unpack(questions.ReplyMessage, body) for body in bodies]


def answers(received: Iterable[tuple[int, bytes]], row: Question[Any, Answer]) -> list[Answer]:
    """Return the answers to one question among these frames."""
    told = [one for one in replies(received) if one.name == row[0] and not one.more]
    return [messages.from_fields(row[2], one.body) for one in told]


def asked(news: Iterable[Any], row: Question[Any, Any]) -> list[Any]:
    """Return what was asked by this question in such frames as `FakeFleet.news` returns."""
    bodies = [value for kind, value in news if kind == "QUESTION"]
    return [body["body"] for body in bodies if body["name"] == row[0]]
