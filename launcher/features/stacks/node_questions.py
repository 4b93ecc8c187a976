"""The question `stacks`: where workers are in their code, at any time while they run."""

from __future__ import annotations

import os
from functools import partial

from ...common import system
from ...common.text import read_json
from ...node.answers import NodeAnswers
from ...node.machine.usage import by_parent, family, read_processes
from .messages import StacksAnswer
from .node_answer import answer, states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...node.answers import QuestionReply
    from ...node.workers.spawn import Process
    from .messages import StacksAsk

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
"""Share of these seconds, and its limit in seconds, for the child to compose its answer."""

AT_ONCE = 4
"""Questions that are answered at a time."""


class StackAnswers(NodeAnswers):
    """Reports the stacks of workers, each time through a child of this process."""

    def ask(self, ask: StacksAsk, reply: QuestionReply, /) -> None:
        wanted = [
            one
            for one in self.context.workers()
            if one.status is None and (not ask.ranks or one.spec.rank in ask.ranks)
        ]
        if len(self.calls.pids) >= AT_ONCE:
            reply(states(wanted, "too many questions at once"))
            return
        seconds = NATIVE_SECONDS if ask.native else _seconds(ask, wanted)
        try:
            self.calls.call(
                partial(answer, ask, wanted, seconds),
                _with_margin(seconds),
                reply.bounded(partial(_pass_on, reply, wanted)),
            )
        except OSError as error:
            reply(states(wanted, f"nothing was read: {error.strerror}"))
            return
        if not ask.native and seconds > SECONDS:
            reply.more(_with_margin(seconds))


def _pass_on(reply: QuestionReply, workers: Sequence[Process], data: bytes) -> None:
    """Reply with the child's findings."""
    try:
        stacks = StacksAnswer(*read_json(data))
    except (ValueError, TypeError):
        running = [one for one in workers if one.status is None]
        stacks = states(running, "nothing was read in time")
    reply(stacks)


def _with_margin(seconds: float) -> float:
    return seconds + min(seconds * MARGIN, MOST_MARGIN)


def _seconds(ask: StacksAsk, workers: Sequence[Process]) -> float:
    """Return the seconds allowed for reading, by the number of processes and the load here."""
    below = by_parent(read_processes()) if ask.children else {}
    count = sum(1 for one in workers for _ in family(one.pid, below))
    busy = max(1.0, system.getloadavg()[0] / (os.cpu_count() or 1))
    return max(SECONDS, min(LONGEST, (SECONDS + EACH * max(0, count - FEW)) * busy))
