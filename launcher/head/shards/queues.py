"""The shard queues of a job, by name: who asks, who waits, and what comes back. Pure."""

from __future__ import annotations

from ....accelerator.data.shard_table import ShardTable

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


class InvalidRequest(Exception):
    """A request that no ShardQueue makes; the text says what is wrong with it."""


class Queue:
    """One queue, and who waits for a shard of it.

    Attributes:
        rank: who named it first, for words.
        waiting: callers that wait, in the order in which they came, with their workers.
    """

    def __init__(self, table: ShardTable, rank: int) -> None:
        self.table = table
        self.rank = rank
        self.waiting: dict[Caller, Worker] = {}

    def serve(self) -> Answers:
        """Give those that wait what is there for them by now."""
        answers: Answers = []
        for caller, worker in list(self.waiting.items()):
            answer = _answer(self.table, worker, {"ask": "take", "wait": True})
            if answer is None:
                break
            del self.waiting[caller]
            answers.append((caller, answer))
        return answers


class ShardQueues:
    """All queues of one job. A worker is (node, rank); a caller, one line of its, (node, line).

    What a worker has taken is its own, whichever of its processes has asked. A request has an
    answer at once, or when others make one possible; so whatever happens may answer many.
    """

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}

    def ask(self, caller: Caller, worker: Worker, request: dict[str, Any]) -> Answers:
        """Return the answers that can be given now that this is asked, to whomever.

        Raises:
            InvalidRequest: it is none.
        """
        name = request.get("queue")
        if not isinstance(name, str) or not isinstance(request.get("ask"), str):
            raise InvalidRequest("it names no queue or asks nothing")
        if request["ask"] == "open":
            return [(caller, self._open(name, worker, request.get("spec")))]
        queue = self._queues.get(name)
        if queue is None:
            raise InvalidRequest("it asks for a queue that nobody has named")
        try:
            answer = _answer(queue.table, worker, request)
        except KeyError:
            raise InvalidRequest(f"it asks for {request['ask'][:20]!r}") from None
        if answer is None:
            queue.waiting[caller] = worker
            return []
        return [(caller, answer), *queue.serve()]

    def line_closed(self, caller: Caller) -> None:
        """Forget a line that has ended: it waits for nothing."""
        for queue in self._queues.values():
            queue.waiting.pop(caller, None)

    def worker_exited(self, worker: Worker) -> Answers:
        """Give others what a worker that has exited has not done."""
        for queue in self._queues.values():
            queue.table.release(worker)
            for caller in [one for one, of in queue.waiting.items() if of == worker]:
                del queue.waiting[caller]
        return self._serve()

    def node_lost(self, node: Node) -> Answers:
        """Give others what the workers of a lost node have not done."""
        for queue in self._queues.values():
            for worker in [one for one in queue.table.holders if one[0] == node]:
                queue.table.release(worker)
            for caller in [one for one in queue.waiting if one[0] == node]:
                del queue.waiting[caller]
        return self._serve()

    def new_round(self) -> None:
        """Put back all that workers of the former round have, and forget who has waited."""
        for queue in self._queues.values():
            queue.table.new_round()
            queue.waiting.clear()

    def _serve(self) -> Answers:
        return [answer for queue in self._queues.values() for answer in queue.serve()]

    def _open(self, name: str, worker: Worker, spec: object) -> dict[str, Any]:
        if not isinstance(spec, dict):
            raise InvalidRequest("it does not say what the queue is of")
        queue = self._queues.get(name)
        if queue is None:
            return self._make(name, worker, spec)
        ours = queue.table.spec
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
            table = ShardTable(**spec)
        except TypeError as error:
            raise InvalidRequest(f"{error}") from None
        except ValueError as error:
            return {"error": f"queue {name!r}: {error}"}
        self._queues[name] = Queue(table, worker[1])
        return {}


def _answer(table: ShardTable, worker: Worker, request: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return table.ask(worker, request)
    except ValueError as error:
        return {"error": str(error)}
