"""STACKS_ASK: where workers are in their code, asked at any time while they run."""

from __future__ import annotations

import os
from functools import partial

from ...common import system
from ...common.text import read_json
from ...control import frames, messages
from ...control.stack_messages import StacksAnswer, StacksAsk
from ..machine.blocking import Calls
from ..machine.usage import by_parent, family, read_processes
from .answer import answer, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ...common.loop import Loop
    from ..workers.spawn import Process

SECONDS = 0.7
"""Seconds for reading a few processes; the runner waits a second for that, or for word of more."""

FEW = 4
"""Number of processes that these seconds suffice for."""

EACH = 0.1
"""Seconds for each process beyond these."""

LONGEST = 10.0
"""The most seconds, however many processes there are, and however busy the CPUs."""

NATIVE_SECONDS = 8.5
"""Seconds for native frames: the symbols of every library of the process are read."""

MARGIN, MOST_MARGIN = 0.25, 1.0
"""Part of these seconds, and the most, in which the child then has to put its answer together."""

AT_ONCE = 4
"""Questions that are answered at a time."""


class StackQuestions:
    """Answers such questions, each by a child of this process."""

    def __init__(self, loop: Loop, send: Callable[[bytes], None]) -> None:
        """Answer with `send`."""
        self._send = send
        self._calls = Calls(loop)

    @property
    def pids(self) -> set[int]:
        """The children that read stacks."""
        return self._calls.pids

    def ask(self, body: bytes, workers: Iterable[Process]) -> None:
        """Answer a question about those of these workers that run."""
        ask = messages.unpack(StacksAsk, body)
        wanted = [
            one
            for one in workers
            if one.status is None and (not ask.ranks or one.spec.rank in ask.ranks)
        ]
        if len(self.pids) >= AT_ONCE:
            self._answer(states(ask, wanted, "too many questions at once"))
            return
        seconds = NATIVE_SECONDS if ask.native else _seconds(ask, wanted)
        try:
            self._calls.call(
                partial(answer, ask, wanted, seconds),
                _with_margin(seconds),
                partial(self._on_answer, ask, wanted),
            )
        except OSError as error:
            self._answer(states(ask, wanted, f"nothing was read: {error.strerror}"))
            return
        if not ask.native and seconds > SECONDS:
            self._answer(StacksAnswer(ask.number, (), (), (), more=_with_margin(seconds)))

    def on_reaped(self, reaped: Mapping[int, int]) -> None:
        """Handle the end of children."""
        self._calls.on_reaped(reaped)

    def close(self) -> None:
        """Answer nothing more."""
        self._calls.close()

    def _on_answer(self, ask: StacksAsk, workers: Sequence[Process], data: bytes) -> None:
        try:
            stacks = StacksAnswer(*read_json(data))
        except (ValueError, TypeError):
            running = [one for one in workers if one.status is None]
            stacks = states(ask, running, "nothing was read in time")
        self._answer(stacks)

    def _answer(self, stacks: StacksAnswer) -> None:
        self._send(messages.pack(frames.STACKS, stacks))


def _with_margin(seconds: float) -> float:
    return seconds + min(seconds * MARGIN, MOST_MARGIN)


def _seconds(ask: StacksAsk, workers: Sequence[Process]) -> float:
    """Return the seconds for reading, by the number of processes and the load of this machine."""
    below = by_parent(read_processes()) if ask.children else {}
    count = sum(1 for one in workers for _ in family(one.pid, below))
    busy = max(1.0, system.getloadavg()[0] / (os.cpu_count() or 1))
    return max(SECONDS, min(LONGEST, (SECONDS + EACH * max(0, count - FEW)) * busy))
