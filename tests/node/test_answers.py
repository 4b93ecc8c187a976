"""Questions to a node: a new one of a table, from the runner and back; and those that are bad."""

from __future__ import annotations

import json
import os
import platform
import re
import signal
from errno import ENOENT
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.common.loop import Loop
from dsrun.launcher.common.records import NamedTuple
from dsrun.launcher.control import frames
from dsrun.launcher.control.job_messages import USAGE, UsageAsk
from dsrun.launcher.control.questions import QuestionMessage
from dsrun.launcher.node.answers import NodeAnswers, NodeQuestions, QuestionContext

from ..support.fake_fleet import FakeFleet
from ..support.limits import NEVER
from ..support.questions import question, replies

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.launcher.head.fleet.node_connection import NodeConnection
    from dsrun.launcher.node.answers import QuestionReply

    from ..support.fake_runner import FakeRunner, Steps

pytestmark = pytest.mark.usefixtures("adopting")


class KernelAsk(NamedTuple):
    """Tell the version of the kernel, with something before it."""

    before: str


class KernelAnswer(NamedTuple):
    """The version of the kernel."""

    version: str


KERNEL = "kernel", KernelAsk, KernelAnswer
SLEEP = "sleep", KernelAsk, KernelAnswer
BROKEN = "broken", KernelAsk, KernelAnswer
BROKEN_LATER = "broken_later", KernelAsk, KernelAnswer


def kernel(_context: QuestionContext, ask: KernelAsk) -> KernelAnswer:
    return KernelAnswer(f"{ask.before} {platform.release()}")


class SleepAnswers(NodeAnswers):
    """Answers by a child that never answers, after a word that this takes long."""

    def ask(self, ask: KernelAsk, reply: QuestionReply, /) -> None:
        answer = KernelAnswer(ask.before)
        self.calls.call(signal.pause, NEVER, lambda _: reply(answer))
        reply.more(7.0)


def broken(_context: QuestionContext, ask: KernelAsk) -> KernelAnswer:
    raise OSError(ENOENT, "no such thing", ask.before)


class BrokenAnswers(NodeAnswers):
    """Answers that break once a child has done its part."""

    def ask(self, ask: KernelAsk, reply: QuestionReply, /) -> None:
        heard = lambda data: reply(KernelAnswer(json.loads(data)[ask.before]))  # noqa: E731
        self.calls.call(dict, NEVER, reply.bounded(heard))


TABLE = {
    "broken": (f"{__name__}:BROKEN", f"{__name__}:broken"),
    "broken_later": (f"{__name__}:BROKEN_LATER", f"{__name__}:BrokenAnswers"),
    "kernel": (f"{__name__}:KERNEL", f"{__name__}:kernel"),
    "sleep": (f"{__name__}:SLEEP", f"{__name__}:SleepAnswers"),
}


class Asked:
    """The questions of one control line, and the frames that have come from them."""

    def __init__(self) -> None:
        self.received: list[tuple[int, bytes]] = []
        self.frames: list[bytes] = []
        self.loop = Loop()
        self.questions = NodeQuestions(self._send, QuestionContext(self.loop, tuple), TABLE)

    def _send(self, frame: bytes) -> None:
        self.frames.append(frame)
        self.received += frames.Decoder().feed(frame)
        self.loop.stop()


@pytest.fixture
def asked() -> Iterator[Asked]:
    found = Asked()
    yield found
    found.questions.close()


def test_a_question_of_a_table_goes_to_the_node_and_back(asked: Asked) -> None:
    fleet = FakeFleet("n0")
    fleet.connect()
    got: list[dict[NodeConnection, KernelAnswer]] = []
    connections = fleet.fleet.nodes.values()
    fleet.fleet.node_queries.ask(connections, KERNEL, KernelAsk("Linux"), got.append)
    fleet.step()
    node = fleet.node("n0")
    ((kind, body),) = [one for one in node.received if one[0] == frames.QUESTION]
    assert kind == frames.QUESTION
    asked.questions.on_question(body)
    node.says(asked.frames[0])
    fleet.step()
    ((answer,),) = [one.values() for one in got]
    assert answer == KernelAnswer(f"Linux {platform.release()}")
    fleet.close()


def test_an_answer_that_takes_long_has_a_child_and_is_none_once_it_is_closed(asked: Asked) -> None:
    asked.questions.on_question(question(SLEEP, KernelAsk("x"), 5))
    ((number, name, _, more, _),) = replies(asked.received)
    assert (number, name, more) == (5, "sleep", 7.0)
    (pid,) = asked.questions.pids
    asked.questions.close()
    asked.questions.on_reaped(dict([os.waitpid(pid, 0)]))
    assert asked.questions.pids == set()
    assert len(asked.received) == 1


def test_an_answer_that_breaks_says_so(asked: Asked, unexpected_faults: list[Exception]) -> None:
    asked.questions.on_question(question(BROKEN, KernelAsk("/x"), 7))
    ((number, _, body, _, failed),) = replies(asked.received)
    assert (number, body) == (7, {})
    assert re.fullmatch(r"FileNotFoundError: .*no such thing: '/x' \(test_answers.py:\d+\)", failed)
    unexpected_faults.clear()


def test_an_answer_that_breaks_later_says_so(
    asked: Asked, unexpected_faults: list[Exception]
) -> None:
    asked.questions.on_question(question(BROKEN_LATER, KernelAsk("x")))
    (pid,) = asked.questions.pids
    asked.questions.on_reaped(dict([os.waitpid(pid, 0)]))
    asked.loop.run()
    assert replies(asked.received)[0].failed.startswith("KeyError: 'x' (test_answers.py:")
    unexpected_faults.clear()


def message(**wrong: Any) -> bytes:
    fields = QuestionMessage(1, "kernel", {"before": ""})._asdict() | wrong
    return frames.pack_json(frames.QUESTION, fields)[5:]


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        ({"name": "none"}, "there is no question 'none'"),
        ({"name": 1}, "name: expected Name"),
        ({"number": -1}, "number: expected Id"),
        ({"body": []}, "body: expected Fields"),
        ({"body": {"before": 1}}, "before: expected str"),
        ({"body": {"behind": ""}}, "KernelAsk: 'before' is missing"),
    ],
)
def test_a_bad_question_is_refused(asked: Asked, wrong: dict[str, Any], fault: str) -> None:
    with pytest.raises(frames.BadFrame, match=f"^{fault}"):
        asked.questions.on_question(message(**wrong))
    assert asked.received == []


@pytest.mark.parametrize(
    "body", [b"", b"{}", message(name="none"), question(USAGE, UsageAsk()).replace(b"{}", b"[]")]
)
def test_a_bad_question_ends_the_line(runner: FakeRunner, body: bytes) -> None:
    def history(r: FakeRunner) -> Steps:
        r.sends(frames.QUESTION, body)
        yield lambda: r.closed

    assert runner.play(history) == 75
