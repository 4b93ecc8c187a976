"""Questions of the runner to the nodes of a fleet, independent of runs."""

from __future__ import annotations

from functools import partial

from ...common.text import plain
from ...control import frames, messages, questions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ...common.loop import Loop
    from ...control.questions import Answer, Ask, Question
    from ...specs.field_types import Fields
    from .fleet import NodeFleet
    from .node_connection import NodeConnection

PATIENCE = 3.0
"""Seconds for nodes to answer."""

MOST_MORE = 12.0
"""Maximum seconds that a node may ask for."""

LONGEST = 300
"""Characters of a node's reason for having no answer that are shown."""

NEVER = float("-inf"), float("-inf")


class NodeQueries:
    """Asks the nodes of one fleet."""

    def __init__(self, fleet: NodeFleet, log: Callable[[str, str], None]) -> None:
        """Create without questions; `log` prints a message, given its text and level."""
        self._fleet, self._log = fleet, log
        self._told: set[str] = set()
        self._open: dict[int, NodeQuestion] = {}
        self._asked = 0
        self._owed: dict[NodeConnection, int] = {}
        self._times: dict[str, tuple[float, float]] = {}
        fleet.services[frames.REPLY] = self._on_reply

    def ask(
        self,
        nodes: Iterable[NodeConnection],
        question: Question[Ask, Answer],
        ask: Ask,
        answered: Callable[[dict[NodeConnection, Answer]], None],
        patience: float = PATIENCE,
    ) -> NodeQuestion:
        """Ask the connected ones of these nodes; return an object that can drop the question.

        `answered` is called once from the loop: when all have answered, or with the answers so far
        after `patience` seconds. A node may ask for more time. Later answers are dropped.
        """
        name, _, shape = question
        asked = [node for node in nodes if node.connected]
        self._asked += 1
        self._open = {n: one for n, one in self._open.items() if not one.over}
        opened = NodeQuestion(self._fleet.loop, asked, shape, answered, patience)
        self._open[self._asked] = opened
        frame = questions.pack_question(self._asked, name, ask)
        for node in asked:
            self._owed[node] = self._owed.get(node, 0) + 1
            node.send(frame)
        self._times[name] = self._fleet.loop.clock(), self._fleet.loop.clock()
        return opened

    def times(self, question: Question[Any, Any]) -> tuple[float, float]:
        """Return the times of the question, and of the newest answer or its deadline.

        Both are on the loop's clock, and minus infinity before the first time.
        """
        return self._times.get(question[0], NEVER)

    def _on_reply(self, node: NodeConnection, body: bytes) -> None:
        told = messages.unpack(questions.ReplyMessage, body)
        known = 0 < told.number <= self._asked and told.name in self._times
        if not (known and self._owed.get(node)):
            raise frames.BadFrame(f"{told.name!r} was not asked")
        more = min(max(told.more, 0.0), MOST_MORE)
        asked, until = self._times[told.name]
        self._times[told.name] = asked, max(until, self._fleet.loop.clock() + more)
        question = self._open.get(told.number)
        if more:
            if question is not None:
                question.put_off(node, more)
            return
        self._owed[node] -= 1
        if told.failed:
            self._tell(f"no answer of {node.name} to {told.name!r}: {plain(told.failed)[:LONGEST]}")
        if question is not None:
            question.add(node, None if told.failed else told.body)

    def _tell(self, fault: str) -> None:
        """Report a fault of dsrun once: some questions are asked again and again."""
        if fault not in self._told:
            self._told.add(fault)
            self._log(f"this is a bug in dsrun: {fault}", "warning")


class NodeQuestion:
    """One question to some nodes, until all have answered or its time is over.

    Attributes:
        over: whether it has been answered or dropped.
    """

    def __init__(
        self,
        loop: Loop,
        nodes: Iterable[NodeConnection],
        shape: type[Answer],
        answered: Callable[[dict[NodeConnection, Answer]], None],
        patience: float,
    ) -> None:
        """Wait `patience` seconds for answers of type `shape`."""
        self.over = False
        self._loop = loop
        self._waiting = set(nodes)
        self._put_off: dict[NodeConnection, float] = {}
        answers: dict[NodeConnection, Answer] = {}

        def keep(node: NodeConnection, fields: Fields) -> None:
            answers[node] = messages.from_fields(shape, fields)

        self._keep = keep
        self._answered = partial(answered, answers)
        self._timer = loop.call_later(patience if self._waiting else 0.0, self._expire)

    def put_off(self, node: NodeConnection, seconds: float) -> None:
        """Extend the time of a node, once, to this number of seconds from now."""
        if node in self._waiting:
            self._put_off.setdefault(node, self._loop.clock() + seconds)

    def add(self, node: NodeConnection, fields: Fields | None) -> None:
        """Add the answer of a node; None if it has none.

        Raises:
            BadFrame: the answer is not of the question's type.
        """
        if node in self._waiting:
            if fields is not None:
                self._keep(node, fields)
            self._waiting.remove(node)
            self._finish_if_all()

    def cancel(self) -> None:
        """Cancel the question: no answer is reported any longer."""
        self.over = True
        self._waiting.clear()
        self._timer.cancel()

    def _expire(self) -> None:
        """Wait only for nodes with time left."""
        now = self._loop.clock()
        self._waiting = {node for node in self._waiting if self._put_off.get(node, now) > now}
        self._finish_if_all()
        if not self.over:
            last = max(self._put_off[node] for node in self._waiting)
            self._timer = self._loop.call_later(last - now, self._expire)

    def _finish_if_all(self) -> None:
        if not self._waiting and not self.over:
            self.cancel()
            self._answered()
