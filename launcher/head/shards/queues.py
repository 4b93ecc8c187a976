"""The shard queues of a job, by name: who asks, who waits, and what comes back. Pure."""

from __future__ import annotations

from ....accelerator.ledger import Ledger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Node = Any
    Worker = tuple[Node, int]
    Caller = tuple[Node, int]
    Answers = list[tuple[Caller, dict[str, Any]]]

MOST_QUEUES = 64
"""Queues of a job: each may have some MB of tables."""

LONGEST_NAME = 200
"""Characters of a queue's name."""


class NotUnderstood(Exception):
    """A request that no ShardQueue makes; the text says what is wrong with it."""


class Queue:
    """One queue, and who waits for a shard of it.

    Attributes:
        rank: who named it first, for words.
        waiting: callers that wait, in the order in which they came, with their workers.
    """

    def __init__(self, ledger: Ledger, rank: int) -> None:
        self.ledger = ledger
        self.rank = rank
        self.waiting: dict[Caller, Worker] = {}

    def serve(self) -> Answers:
        """Give those that wait what is there for them by now."""
        answers: Answers = []
        for caller, worker in list(self.waiting.items()):
            answer = _asked(self.ledger, worker, {"ask": "take", "wait": True})
            if answer is None:
                break
            del self.waiting[caller]
            answers.append((caller, answer))
        return answers


class Shards:
    """All queues of one job. A worker is (node, rank); a caller, one line of its, (node, line).

    What a worker has taken is its own, whichever of its processes has asked. A request has an
    answer at once, or when others make one possible; so whatever happens may answer many.
    """

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}

    def ask(self, caller: Caller, worker: Worker, request: dict[str, Any]) -> Answers:
        """Take in a request; return the answers that can be given now, to whomever.

        Raises:
            NotUnderstood: it is none.
        """
        name = request.get("queue")
        if not isinstance(name, str) or not isinstance(request.get("ask"), str):
            raise NotUnderstood("it names no queue or asks nothing")
        if request["ask"] == "open":
            return [(caller, self._open(name, worker, request.get("spec")))]
        queue = self._queues.get(name)
        if queue is None:
            raise NotUnderstood("it asks for a queue that nobody has named")
        try:
            answer = _asked(queue.ledger, worker, request)
        except KeyError:
            raise NotUnderstood(f"it asks for {request['ask'][:20]!r}") from None
        if answer is None:
            queue.waiting[caller] = worker
            return []
        return [(caller, answer), *queue.serve()]

    def hung_up(self, caller: Caller) -> None:
        """Take in that a line has ended: it waits for nothing."""
        for queue in self._queues.values():
            queue.waiting.pop(caller, None)

    def ended(self, worker: Worker) -> Answers:
        """Take in that a worker has ended; what it has not done goes to others."""
        for queue in self._queues.values():
            queue.ledger.release(worker)
            for caller in [one for one, of in queue.waiting.items() if of == worker]:
                del queue.waiting[caller]
        return self._serve()

    def lost(self, node: Node) -> Answers:
        """Take in that a node is gone, with all of its workers."""
        for queue in self._queues.values():
            for worker in [one for one in queue.ledger.holders if one[0] == node]:
                queue.ledger.release(worker)
            for caller in [one for one in queue.waiting if one[0] == node]:
                del queue.waiting[caller]
        return self._serve()

    def new_round(self) -> None:
        """Put back all that workers of the former round have, and forget who has waited."""
        for queue in self._queues.values():
            queue.ledger.new_round()
            queue.waiting.clear()

    def _serve(self) -> Answers:
        return [answer for queue in self._queues.values() for answer in queue.serve()]

    def _open(self, name: str, worker: Worker, spec: object) -> dict[str, Any]:
        if not isinstance(spec, dict):
            raise NotUnderstood("it does not say what the queue is of")
        queue = self._queues.get(name)
        if queue is None:
            return self._make(name, worker, spec)
        ours = queue.ledger.spec
        other = [field for field in ours if spec.get(field) != ours[field]]
        if not other:
            return {}
        ways = [f"{field}={spec.get(field)}, not {ours[field]}" for field in other]
        first = f"as rank {queue.rank} has named it"
        return {"error": f"queue {name!r}: {', '.join(ways)} {first}"}

    def _make(self, name: str, worker: Worker, spec: dict[str, Any]) -> dict[str, Any]:
        if len(self._queues) >= MOST_QUEUES or not 0 < len(name) <= LONGEST_NAME:
            most = f"{MOST_QUEUES} queues at most, names of {LONGEST_NAME} characters"
            return {"error": f"queue {name[:LONGEST_NAME]!r}: {most}"}
        try:
            ledger = Ledger(**spec)
        except TypeError as error:
            raise NotUnderstood(f"{error}") from None
        except ValueError as error:
            return {"error": f"queue {name!r}: {error}"}
        self._queues[name] = Queue(ledger, worker[1])
        return {}


def _asked(ledger: Ledger, worker: Worker, request: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return ledger.ask(worker, request)
    except ValueError as error:
        return {"error": str(error)}
