"""Answers to questions of the runner; their modules are imported at the first question.

This is a boundary: if an answer cannot be made for any reason, only this question fails.
"""

from __future__ import annotations

import os

from ..common.entry import load
from ..common.records import NamedTuple
from ..common.unexpected import unexpected
from ..control import frames, messages, questions
from .machine.blocking import Calls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, ParamSpec

    from ..common.loop import Loop
    from .workers.spawn import Process

    P = ParamSpec("P")


class QuestionContext(NamedTuple):
    """The part of the node launcher that an answer may use.

    Attributes:
        loop: the loop of this node launcher.
        workers: returns the workers of the program that runs now; () between two.
    """

    loop: Loop
    workers: Callable[[], Sequence[Process]]


class QuestionReply:
    """The reply to one question; call it with the answer."""

    def __init__(self, send: Callable[[bytes], None], number: int, name: str) -> None:
        """Send the answer to the question with this number, of the row with this name."""
        self._send, self._of = send, (number, name)

    def __call__(self, answer: NamedTuple) -> None:
        self._send(questions.pack_reply(*self._of, answer))

    def more(self, seconds: float) -> None:
        """Ask the runner to wait this many more seconds for the answer."""
        self._send(questions.pack_more(*self._of, seconds))

    def bounded(self, call: Callable[P, object]) -> Callable[P, None]:
        """Return a function that makes a call on the way to the answer, or reports its failure."""

        def attempt(*args: P.args, **kwargs: P.kwargs) -> None:
            try:
                call(*args, **kwargs)
            except Exception as error:
                self._send(questions.pack_failure(*self._of, _in_words(error)))

        return attempt


def _in_words(error: Exception) -> str:
    """Return an exception and the place that has raised it."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    place = f" ({os.path.basename(at.tb_frame.f_code.co_filename)}:{at.tb_lineno})" if at else ""
    return unexpected(error) + place


class NodeAnswers:
    """Answers one kind of question, at once or later.

    Attributes:
        context: the context of the question.
        calls: calls functions that may block, each in a child of this process.
    """

    def __init__(self, context: QuestionContext) -> None:
        self.context = context
        self.calls = Calls(context.loop)

    def ask(self, ask: Any, reply: QuestionReply, /) -> None:
        """Answer; `ask` is of the type that asks this question."""
        raise NotImplementedError

    def close(self) -> None:
        """Answer nothing more."""
        self.calls.close()


class AnswersAtOnce(NodeAnswers):
    """Answers by a function of the context and what is asked, which must not block."""

    def __init__(
        self, context: QuestionContext, function: Callable[[QuestionContext, Any], NamedTuple]
    ) -> None:
        super().__init__(context)
        self._function = function

    def ask(self, ask: Any, reply: QuestionReply, /) -> None:
        reply(self._function(self.context, ask))


class NodeQuestions:
    """Has the questions of one control line answered."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        context: QuestionContext,
        table: Mapping[str, tuple[str, str]],
    ) -> None:
        """Prepare.

        Args:
            send: sends a frame.
            context: the context of the questions.
            table: by the name of a question, its row, and the `NodeAnswers` or the function for
                `AnswersAtOnce` that answers it: each as "module:name".
        """
        self._send, self._context, self._table = send, context, table
        self._known: dict[str, tuple[type[Any], NodeAnswers]] = {}

    @property
    def pids(self) -> set[int]:
        """The children that answer."""
        return {pid for _, answers in self._known.values() for pid in answers.calls.pids}

    def on_question(self, body: bytes) -> None:
        """Have a question answered.

        Raises:
            BadFrame: the question is invalid, or its name unknown.
        """
        asked = messages.unpack(questions.QuestionMessage, body)
        if asked.name not in self._known:
            self._known[asked.name] = self._open(asked.name)
        shape, answers = self._known[asked.name]
        ask = messages.from_fields(shape, asked.body)
        reply = QuestionReply(self._send, asked.number, asked.name)
        reply.bounded(answers.ask)(ask, reply)

    def _open(self, name: str) -> tuple[type[Any], NodeAnswers]:
        """Return the question's type, and the function that answers it."""
        if name not in self._table:
            raise frames.BadFrame(f"there is no question {name!r}")
        (_, shape, _), answers = (load(one) for one in self._table[name])
        if isinstance(answers, type):
            return shape, answers(self._context)
        return shape, AnswersAtOnce(self._context, answers)

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children, given the wait status of each by pid."""
        for _, answers in self._known.values():
            answers.calls.on_reaped(reaped)

    def close(self) -> None:
        """Answer nothing more."""
        for _, answers in self._known.values():
            answers.close()
