"""Questions of the runner to the nodes of a fleet about their machines."""

from __future__ import annotations

from ...control import frames, job_messages, messages, stack_messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeAlias

    from ...common.loop import Loop
    from ...control.job_messages import EndedJob, EndJob, Usage
    from ...control.stack_messages import StacksAnswer, StacksAsk
    from .fleet import NodeFleet
    from .node_connection import NodeConnection

    Used: TypeAlias = dict[NodeConnection, Usage]
    Told: TypeAlias = dict[NodeConnection, StacksAnswer]
    OnEnded: TypeAlias = Callable[[NodeConnection, EndedJob], None]

PATIENCE = 3.0
"""Seconds for nodes to report what is used there; their devices may take two."""

MOST_MORE = 12.0
"""The most seconds that a node may ask for."""


class NodeQueries:
    """Asks nodes; there is one of these per fleet.

    Attributes:
        read: when stacks were asked for, and when the newest answer has come, or is to come, on the
            loop's clock: in this time workers do a little for that.
    """

    def __init__(self, fleet: NodeFleet) -> None:
        self._fleet = fleet
        self._owed: dict[NodeConnection, int] = {}
        self._questions: list[NodeQuestion] = []
        self._about_stacks: dict[int, NodeQuestion] = {}
        self._asked = 0
        self.read = float("-inf"), float("-inf")
        self._endings: dict[NodeConnection, OnEnded] = {}
        fleet.services |= {
            frames.USAGE: self._on_usage,
            frames.STACKS: self._on_stacks,
            frames.ENDED_JOB: self._on_ended,
        }

    # -- usage ------------------------------------------------------------------------------

    def ask_usage(
        self, nodes: Iterable[NodeConnection], answered: Callable[[Used], None]
    ) -> NodeQuestion:
        """Ask for the usage of these nodes; `answered` gets the answers so far after `PATIENCE`.

        It is called from the loop, earlier if all connected nodes have answered.
        """
        asked = [node for node in nodes if node.connected]
        question = self._question(asked, answered, PATIENCE)
        self._questions.append(question)
        for node in asked:
            self._owed[node] = self._owed.get(node, 0) + 1
            node.send(frames.pack(frames.USAGE_ASK))
        return question

    def _question(
        self, asked: list[NodeConnection], answered: Callable[[Any], None], patience: float
    ) -> NodeQuestion:
        return NodeQuestion(self._fleet.loop, asked, answered, patience)

    def _on_usage(self, node: NodeConnection, body: bytes) -> None:
        if not self._owed.get(node):
            raise frames.BadFrame("USAGE was not requested")
        self._owed[node] -= 1
        used = messages.unpack(job_messages.Usage, body)
        self._questions = [one for one in self._questions if not one.over]
        for question in tuple(self._questions):
            question.add(node, used)

    # -- stacks -----------------------------------------------------------------------------

    def ask_stacks(
        self,
        nodes: Iterable[NodeConnection],
        ask: StacksAsk,
        answered: Callable[[Told], None],
        patience: float,
    ) -> NodeQuestion:
        """Ask for the stacks of workers on these nodes; `answered` gets the answers in time.

        It is called from the loop after `patience` s, or when all connected nodes have answered. A
        node that has many stacks to read announces this, and gets more time. Later answers are
        dropped. The question gets its number here.
        """
        asked = [node for node in nodes if node.connected]
        question = self._question(asked, answered, patience)
        self._about_stacks = {n: one for n, one in self._about_stacks.items() if not one.over}
        self._asked += 1
        self._about_stacks[self._asked] = question
        frame = messages.pack(frames.STACKS_ASK, ask._replace(number=self._asked))
        for node in asked:
            node.send(frame)
        self.read = self._fleet.loop.clock(), self._fleet.loop.clock()
        return question

    def _on_stacks(self, node: NodeConnection, body: bytes) -> None:
        told = messages.unpack(stack_messages.StacksAnswer, body)
        if not 0 < told.number <= self._asked:
            raise frames.BadFrame("STACKS was not requested")
        more = min(max(told.more, 0.0), MOST_MORE)
        self.read = self.read[0], max(self.read[1], self._fleet.loop.clock() + more)
        question = self._about_stacks.get(told.number)
        if question is not None and told.more > 0:
            question.put_off(node, more)
        elif question is not None:
            question.add(node, told)

    # -- what a job has left ----------------------------------------------------------------

    def end_job(self, node: NodeConnection, order: EndJob, ended: OnEnded) -> None:
        """Make a node end a job's remaining processes, one job at a time; `ended` is called."""
        self._endings[node] = ended
        node.send(messages.pack(frames.END_JOB, order))

    def _on_ended(self, node: NodeConnection, body: bytes) -> None:
        ended = self._endings.pop(node, None)
        if ended is None:
            raise frames.BadFrame("no end of a job was requested")
        ended(node, messages.unpack(job_messages.EndedJob, body))


class NodeQuestion:
    """One question to some nodes, until all have answered or the time is over.

    Attributes:
        over: whether it has been answered or dropped.
    """

    def __init__(
        self,
        loop: Loop,
        nodes: Iterable[NodeConnection],
        answered: Callable[[Any], None],
        patience: float,
    ) -> None:
        """Wait for this number of seconds."""
        self.over = False
        self._loop = loop
        self._waiting = set(nodes)
        self._put_off: dict[NodeConnection, float] = {}
        self._answers: dict[NodeConnection, Any] = {}
        self._answered = answered
        self._timer = loop.call_later(patience if self._waiting else 0.0, self._expire)

    def put_off(self, node: NodeConnection, seconds: float) -> None:
        """Extend the time of a node, once, to this number of seconds from now."""
        if node in self._waiting:
            self._put_off.setdefault(node, self._loop.clock() + seconds)

    def add(self, node: NodeConnection, answer: Any) -> None:
        """Add the answer of a node."""
        if node in self._waiting:
            self._waiting.remove(node)
            self._answers[node] = answer
            self._end_if_all()

    def drop(self) -> None:
        """Cancel the question: no answer is reported any longer."""
        self.over = True
        self._waiting.clear()
        self._timer.cancel()

    def _expire(self) -> None:
        """Wait on only for nodes that have time left."""
        now = self._loop.clock()
        self._waiting = {node for node in self._waiting if self._put_off.get(node, now) > now}
        self._end_if_all()
        if not self.over:
            last = max(self._put_off[node] for node in self._waiting)
            self._timer = self._loop.call_later(last - now, self._expire)

    def _end_if_all(self) -> None:
        """Answer with what has come, if nobody is waited for."""
        if not self._waiting and not self.over:
            self.drop()
            self._answered(self._answers)
