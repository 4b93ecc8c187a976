"""Asks nodes for their facts without a job, by the program `facts`."""

from __future__ import annotations

import json
import time

from ...common.text import plain
from ...common.values import NamedTuple
from ...control import field_types, frames, messages
from ...control.facts import restored
from .compared_node import ComparedNode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from ...control.messages import Hello, Task
    from ..exec.programs import NodePrograms, RunningProgram

INVALID = "its answer is not valid"


class Answer(NamedTuple):
    """What a node has answered.

    Attributes:
        hello: as it would be in a job; None if there is none.
        error: why, in words.
        files: the sizes of the Python files by name, if that was asked.
        report: what is only for people, by name, if that was asked.
        notes: lines for the user.
        sent: when it was asked, in seconds since the epoch.
        arrived: when the answer came.
    """

    hello: Hello | None = None
    error: str = ""
    files: Mapping[str, int] | None = None
    report: Mapping[str, str] = {}
    notes: tuple[str, ...] = ()
    sent: float = 0.0
    arrived: float = 0.0


class Question:
    """Asks some nodes at once.

    Attributes:
        answers: by the names of the nodes, once it is over.
    """

    def __init__(self, programs: NodePrograms, on_over: Callable[[], None]) -> None:
        """Prepare it; `on_over` is called from the loop once all have answered or failed."""
        self.answers: dict[str, Answer] = {}
        self._programs = programs
        self._on_over = on_over
        self._waiting: set[str] = set()
        self._running: RunningProgram | None = None
        self._sent = 0.0

    def ask(self, tasks: Mapping[str, Task], options: Sequence[str], seconds: float) -> None:
        """Ask the nodes of these tasks; `seconds` are the most that they may take."""
        self._waiting = set(tasks)
        self._sent = time.time()
        words = dict.fromkeys(tasks, options)
        self._running = self._programs.start("facts", words, self._on_line, self._on_end)
        for name, task in tasks.items():
            self._running.send(name, json.dumps(task._asdict()).encode() + b"\n")
        self._timer = self._programs.loop.call_later(seconds, lambda: self._give_up(seconds))
        self._look()

    def _on_line(self, name: str, line: bytes) -> None:
        if name in self._waiting:
            self.answers[name] = _parsed(line, self._sent)

    def _on_end(self, name: str, code: int, why: str) -> None:
        if name in self._waiting:
            self._waiting.remove(name)
            if code or name not in self.answers:
                self.answers[name] = Answer(error=plain(why) or INVALID)
            self._look()

    def _give_up(self, seconds: float) -> None:
        for name in self._waiting:
            self.answers[name] = Answer(error=f"no answer within {seconds:g} s")
        self._waiting.clear()
        if self._running is not None:
            self._running.stop()
        self._look()

    def _look(self) -> None:
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


def _parsed(line: bytes, sent: float) -> Answer:
    """Return the answer in a line; every field of it is checked."""
    try:
        fields: dict[str, Any] = frames.unpack_json(line)
        valid = {"hello": _dict, "files": _files, "report": _texts, "notes": _lines}
        wrong = [name for name, check in valid.items() if not check(fields.get(name))]
        if wrong:
            raise frames.BadFrame(f"{wrong[0]} is not valid")
        hello = messages.from_fields(messages.Hello, fields["hello"])
    except frames.BadFrame as error:
        return Answer(error=f"{INVALID}: {plain(str(error))[:200]}")
    if hello.facts is not None:
        hello = hello._replace(facts=restored(hello.facts))
    return Answer(
        hello=hello,
        files=fields.get("files"),
        report=fields.get("report") or {},
        notes=tuple(fields.get("notes") or ()),
        sent=sent,
        arrived=time.time(),
    )


def _dict(value: object) -> bool:
    return isinstance(value, dict)


def _files(value: object) -> bool:
    return value is None or field_types.CHECKS["dict[str, int]"](value)


def _texts(value: object) -> bool:
    return field_types.CHECKS["dict[str, str] | None"](value)


def _lines(value: object) -> bool:
    return value is None or field_types.CHECKS["tuple[str, ...]"](value)
