"""Asks nodes for their facts without a job, by the program `facts`."""

from __future__ import annotations

import time

from ...common.records import NamedTuple
from ...common.text import plain
from ...control import frames, messages
from .runner_findings import ComparedNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ...control.messages import Hello, NodeJob
    from ..exec.runner_programs import NodePrograms, RunningProgram

INVALID = "its answer is not valid"


class Answer(NamedTuple):
    """The answer of a node.

    Attributes:
        hello: the HELLO that the node would send in a job; None without one.
        error: the reason for no HELLO, in words.
        files: the sizes of the Python files by name, if requested.
        report: further facts for people, by name, if requested.
        notes: lines for the user.
        sent: the time of the question, in seconds since the epoch.
    """

    hello: Hello | None = None
    error: str = ""
    files: Mapping[str, int] | None = None
    report: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    sent: float = 0.0
    arrived: float = 0.0

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems that the node has reported about itself."""
        return self.hello.problems if self.hello else ()


class HostQuestion:
    """Asks some nodes at once.

    Attributes:
        answers: the answers by node, once all have answered or failed.
    """

    def __init__(self, programs: NodePrograms, on_over: Callable[[], None]) -> None:
        """Prepare it; `on_over` is called from the loop once all have answered or failed."""
        self.answers: dict[str, Answer] = {}
        self._programs = programs
        self._on_over = on_over
        self._waiting: set[str] = set()
        self._running: RunningProgram | None = None
        self._sent = 0.0

    def ask(self, tasks: Mapping[str, NodeJob], options: Sequence[str], seconds: float) -> None:
        """Ask the nodes of these tasks, and wait at most this number of `seconds`."""
        self._waiting = set(tasks)
        self._sent = time.time()
        words = dict.fromkeys(tasks, options)
        self._running = self._programs.start("facts", words, self._on_line, self._on_end)
        for name, task in tasks.items():
            self._running.send(name, frames.json_line(task._asdict()) + b"\n")
        self._timer = self._programs.loop.call_later(seconds, lambda: self._cancel(seconds))
        self._finish_if_answered()

    def _on_line(self, name: str, line: bytes) -> None:
        if name in self._waiting:
            self.answers[name] = _parsed(line, self._sent)

    def _on_end(self, name: str, code: int, why: str) -> None:
        if name in self._waiting:
            self._waiting.remove(name)
            if code or name not in self.answers:
                self.answers[name] = Answer(error=plain(why) or INVALID)
            self._finish_if_answered()

    def _cancel(self, seconds: float) -> None:
        for name in self._waiting:
            self.answers[name] = Answer(error=f"no answer within {seconds:g} s")
        self._waiting.clear()
        if self._running is not None:
            self._running.stop()
        self._finish_if_answered()

    def _finish_if_answered(self) -> None:
        if not self._waiting:
            self._timer.cancel()
            self._programs.loop.call_later(0.0, self._on_over)


def compared_node(name: str, answer: Answer, *, torch: bool = False) -> ComparedNode | None:
    """Return a node as it is compared, None if it has no facts; `torch` is needed in any case."""
    hello = answer.hello
    if hello is None or hello.facts is None:
        return None
    wall = hello.facts.wall
    return ComparedNode(
        name=name,
        facts=hello.facts,
        workers=hello.slots,
        accelerator=hello.accelerator,
        ahead=(wall - answer.arrived, wall - answer.sent),
        needs_torch=torch or hello.facts.imports_torch,
    )


def without_files(first: Answer, again: Answer) -> Answer:
    """Return the second answer of a node, without the files that it lacks, with its problems.

    The script is taken to import torch, as most scripts do.
    """
    hello = again.hello
    if hello is None or hello.facts is None:
        return first
    facts = hello.facts._replace(files="", imports_torch=True)
    return again._replace(hello=hello._replace(problems=first.problems, facts=facts))


class _FactsLine(NamedTuple):
    """A line that the program `facts` prints."""

    hello: Hello
    notes: tuple[str, ...]
    files: dict[str, int] | None = None
    report: dict[str, str] | None = None


def _parsed(line: bytes, sent: float) -> Answer:
    """Return the answer in a line; all its fields are checked."""
    try:
        said = messages.unpack(_FactsLine, line)
    except frames.BadFrame as error:
        return Answer(error=f"{INVALID}: {plain(str(error))[:200]}")
    return Answer(
        hello=said.hello,
        files=said.files,
        report=said.report or {},
        notes=said.notes,
        sent=sent,
        arrived=time.time(),
    )
