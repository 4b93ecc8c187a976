"""Asking nodes for their facts, over programs that a test plays."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.launcher.control.messages import Hello, NodeJob
from dsrun.launcher.features.quick_check.runner_answers import Answer, HostQuestion, compared_node
from dsrun.launcher.specs.program import Program

from ...support.clock import Clock
from ...support.node_facts import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

TASK = NodeJob("1", "j", "n0", Program("check", module=True), "/", {}, None, None, facts=True)
HELLO = Hello("1", "h", "m", "3", "cpu", (), 2, None, (), (), 1.0, facts=facts())


class FakePrograms:
    """Programs that a test plays; also the one that runs."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.loop = self.clock.loop
        self.names: Sequence[str] = ["n0", "n1"]
        self.started: dict[str, Sequence[str]] = {}
        self.sent: dict[str, bytes] = {}
        self.stopped = False

    def start(
        self,
        program: str,
        arguments: Mapping[str, Sequence[str]],
        on_line: Callable[[str, bytes], None],
        on_end: Callable[[str, int, str], None],
    ) -> FakePrograms:
        assert program == "facts"
        self.started, self.on_line, self.on_end = dict(arguments), on_line, on_end
        return self

    def send(self, host: str, line: bytes) -> None:
        assert line.endswith(b"\n")
        self.sent[host] = line

    def stop(self) -> None:
        self.stopped = True


class Asked:
    def __init__(self, *options: str) -> None:
        self.programs = FakePrograms()
        self.over = 0
        self.question = HostQuestion(self.programs, self._over)
        self.question.ask({"n0": TASK, "n1": TASK}, options, 60.0)

    def _over(self) -> None:
        self.over += 1

    def answer(self, name: str, **fields: Any) -> None:
        said = {"hello": HELLO, "notes": [], **fields}
        self.programs.on_line(name, json.dumps(said).encode())
        self.end(name)

    def end(self, name: str, code: int = 0, why: str = "") -> None:
        self.programs.on_end(name, code, why)
        self.programs.clock.settle()


def test_all_nodes_are_asked_and_waited_for() -> None:
    asked = Asked("--files")
    assert asked.programs.started == {"n0": ("--files",), "n1": ("--files",)}
    assert json.loads(asked.programs.sent["n0"])["facts"] is True
    asked.answer("n1", files={"a.py": 1}, notes=["note"], report={"os": "x"})
    assert asked.over == 0
    asked.answer("n0")
    assert asked.over == 1
    n0, n1 = asked.question.answers["n0"], asked.question.answers["n1"]
    assert (n1.files, n1.notes, n1.report, n1.error) == ({"a.py": 1}, ("note",), {"os": "x"}, "")
    assert n0.hello == HELLO
    assert n0.hello is not None
    assert n0.hello.facts == facts()


def test_a_failure_is_told() -> None:
    asked = Asked()
    asked.end("n0", 75, "lost\x1b[2J")
    asked.end("n1")
    assert [one.error for one in asked.question.answers.values()] == [
        "lost\\x1b[2J",
        "its answer is not valid",
    ]


def test_a_node_that_hangs_is_given_up() -> None:
    asked = Asked()
    asked.answer("n0")
    asked.programs.clock.go(61.0)
    asked.programs.clock.settle()
    assert (asked.over, asked.programs.stopped) == (1, True)
    assert asked.question.answers["n1"].error == "no answer within 60 s"
    asked.end("n1", 143, "late")
    assert (asked.over, asked.question.answers["n1"].error) == (1, "no answer within 60 s")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"hello": 3}',
        b'{"hello": {"dsrun": 1}}',
        json.dumps({"hello": HELLO, "notes": [], "files": {"a": -1.5}}).encode(),
        json.dumps({"hello": HELLO, "notes": [], "report": ["x"]}).encode(),
        json.dumps({"hello": HELLO, "notes": "x"}).encode(),
        json.dumps({"hello": [*HELLO[:-2], [1], None], "notes": []}).encode(),
    ],
)
def test_what_is_not_valid_is_an_error(line: bytes) -> None:
    asked = Asked()
    asked.programs.on_line("n0", line)
    asked.end("n0")
    answer = asked.question.answers["n0"]
    assert answer.hello is None
    assert answer.error.startswith("its answer is not valid: ")


def test_a_clock_is_compared_with_when_it_was_asked() -> None:
    now = time.time()
    hello = HELLO._replace(facts=facts(wall=now + 10.0))
    one = compared_node("n0", Answer(hello=hello, sent=now - 1.0, arrived=now))
    assert one is not None
    assert one.ahead == pytest.approx((10.0, 11.0))
    assert (one.workers, one.accelerator) == (2, "cpu")
    assert compared_node("n0", Answer(hello=HELLO._replace(facts=None))) is None
    assert compared_node("n0", Answer(error="gone")) is None
