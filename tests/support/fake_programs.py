"""Programs on nodes for the full check, without nodes; a test answers in their place."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from .clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dsrun.launcher.features.full_check.runner_steps import Script, StepRequest, StepResult


class FakePrograms:
    """The programs of one step at a time, which end when they are stopped.

    Attributes:
        names: the nodes'.
        loop: with a clock that the test moves.
        started: the programs, in order.
        asked: for each node the requests that nobody has answered yet.
        obedient: whether they end when they are stopped.
    """

    def __init__(self, *names: str) -> None:
        self.names: Sequence[str] = names
        self.clock = Clock()
        self.loop = self.clock.loop
        self.started: list[str] = []
        self.asked: dict[str, list[dict[str, Any]]] = {}
        self.obedient = True
        self.stops = 0

    def start(
        self,
        program: str,
        arguments: Mapping[str, Sequence[str]],
        on_line: Callable[[str, bytes], None],
        on_end: Callable[[str, int, str], None],
    ) -> FakePrograms:
        """Start a program; it is sent lines, and stopped, by the same object."""
        self.started.append(program)
        self.asked = {name: [] for name in arguments}
        self.line, self.end = on_line, on_end
        return self

    def send(self, host: str, line: bytes) -> None:
        """Keep a request."""
        assert line.endswith(b"\n")
        self.asked[host].append(json.loads(line))

    def stop(self) -> None:
        """End all."""
        self.stops += 1
        if self.obedient:
            for name in self.names:
                self.end(name, -15, "")

    def answer(self, host: str, **body: Any) -> None:
        """Answer the oldest request of a node: `reply={...}` or `error="why"`."""
        self.line(host, json.dumps({"id": self.asked[host].pop(0)["id"], **body}).encode())


def play(script: Script, answer: Callable[[StepRequest, str, Any], Any]) -> StepResult:
    """Return a script's result; `answer` is given each ask, a node's name and its request."""
    answers: dict[str, Any] | None = None
    while True:
        try:
            ask = script.send(answers) if answers is not None else next(script)
        except StopIteration as end:
            result: StepResult = end.value
            return result
        answers = {name: answer(ask, name, one) for name, one in ask.requests.items()}
