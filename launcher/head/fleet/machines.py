"""What the runner asks the nodes of a fleet about their machines, whatever runs there."""

from __future__ import annotations

from ...control import frames, job_messages, messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeAlias

    from ...common.loop import Timer
    from ...control.job_messages import EndedJob, EndJob, Usage
    from .fleet import Fleet
    from .node_connection import NodeConnection

    Used: TypeAlias = dict[NodeConnection, Usage]
    OnEnded: TypeAlias = Callable[[NodeConnection, EndedJob], None]

PATIENCE = 3.0
"""Seconds for nodes to report what is used there; their devices may take two."""


class Machines:
    """Asks nodes; there is one of these per fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._owed: dict[NodeConnection, int] = {}
        self._questions: list[UsageQuestion] = []
        self._endings: dict[NodeConnection, OnEnded] = {}
        fleet.services |= {frames.USAGE: self._on_usage, frames.ENDED_JOB: self._on_ended}

    # -- usage ------------------------------------------------------------------------------

    def ask_usage(
        self, nodes: Iterable[NodeConnection], answered: Callable[[Used], None]
    ) -> UsageQuestion:
        """Ask what is used on these nodes; `answered` gets what has come after `PATIENCE`.

        It is called from the loop, sooner if all connected nodes have answered.
        """
        asked = [node for node in nodes if node.connected]
        question = UsageQuestion(asked, answered)
        self._questions.append(question)
        for node in asked:
            self._owed[node] = self._owed.get(node, 0) + 1
            node.send(frames.pack(frames.USAGE_ASK))
        wait = PATIENCE if asked else 0.0
        question.timer = self._fleet.loop.call_later(wait, question.end)
        return question

    def _on_usage(self, node: NodeConnection, body: bytes) -> None:
        if not self._owed.get(node):
            raise frames.BadFrame("nobody has asked for USAGE")
        self._owed[node] -= 1
        used = messages.unpack(job_messages.Usage, body)
        rows = tuple(job_messages.RankUsage(*row) for row in used.ranks)
        devices = tuple(job_messages.DeviceUsage(*row) for row in used.devices)
        self._questions = [one for one in self._questions if not one.over]
        for question in tuple(self._questions):
            question.add(node, used._replace(ranks=rows, devices=devices))

    # -- what a job has left ----------------------------------------------------------------

    def end_job(self, node: NodeConnection, order: EndJob, ended: OnEnded) -> None:
        """Have a node end what a job has left there, one at a time; `ended` gets the outcome."""
        self._endings[node] = ended
        node.send(messages.pack(frames.END_JOB, order))

    def _on_ended(self, node: NodeConnection, body: bytes) -> None:
        ended = self._endings.pop(node, None)
        if ended is None:
            raise frames.BadFrame("no job was to be ended")
        ended(node, messages.unpack(job_messages.EndedJob, body))


class UsageQuestion:
    """One question to some nodes, until all have answered or the time is over.

    Attributes:
        timer: ends it.
        over: whether it has been answered or dropped.
    """

    def __init__(self, nodes: Iterable[NodeConnection], answered: Callable[[Used], None]) -> None:
        self.timer: Timer | None = None
        self.over = False
        self._waiting = set(nodes)
        self._used: Used = {}
        self._answered = answered

    def add(self, node: NodeConnection, used: Usage) -> None:
        """Add the answer of a node."""
        if node in self._waiting:
            self._waiting.remove(node)
            self._used[node] = used
            if not self._waiting:
                self.end()

    def end(self) -> None:
        """Answer with what has come."""
        if not self.over:
            self.drop()
            self._answered(self._used)

    def drop(self) -> None:
        """Give no answer any more."""
        self.over = True
        self._waiting.clear()
        if self.timer is not None:
            self.timer.cancel()
