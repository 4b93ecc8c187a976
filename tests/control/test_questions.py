"""Questions and replies, there and back."""

from __future__ import annotations

import pytest

from dsrun.launcher.control import frames, messages, questions
from dsrun.launcher.control.job_messages import EndJob
from dsrun.launcher.control.questions import QuestionMessage, ReplyMessage


def test_a_question_has_the_fields_of_what_is_asked() -> None:
    ((kind, body),) = frames.Decoder().feed(
        questions.pack_question(3, "end_job", EndJob("j", 15, 0.5))
    )
    asked = messages.unpack(QuestionMessage, body)
    assert (kind, asked.number, asked.name) == (frames.QUESTION, 3, "end_job")
    assert messages.from_fields(EndJob, asked.body) == EndJob("j", 15, 0.5)


def test_a_reply_asks_for_more_time_or_has_the_answer() -> None:
    answer = questions.pack_reply(3, "end_job", EndJob("j", 15, 0.5))
    more = questions.pack_more(3, "end_job", 2.5)
    told = [messages.unpack(ReplyMessage, body) for _, body in frames.Decoder().feed(answer + more)]
    assert [(one.number, one.name, one.more) for one in told] == [
        *((3, "end_job", 0.0), (3, "end_job", 2.5)),
    ]
    assert [bool(one.body) for one in told] == [True, False]


@pytest.mark.parametrize("body", [b"[]", b"1", b"null"])
def test_what_is_asked_has_fields(body: bytes) -> None:
    with pytest.raises(frames.BadFrame, match=r"^body: expected Fields"):
        messages.unpack(QuestionMessage, b'{"number":1,"name":"x","body":%s}' % body)
