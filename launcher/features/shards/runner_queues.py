"""The shard queues of a job, by name: requests, waiting callers and answers. Pure."""

from __future__ import annotations

from ....accelerator.data.shard_table import ShardTable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Node = Any
    Worker = tuple[Node, int]
    Caller = tuple[Node, int]
    Answers = list[tuple[Caller, dict[str, Any]]]

MOST_QUEUES = 64
"""Maximum number of queues of a job: each may have some MB of tables."""

LONGEST_NAME = 200
"""Longest name of a queue in characters."""


class InvalidRequest(Exception):
    """A request that no ShardQueue makes; the message is the reason."""


class Queue:
    """One queue, and the callers that wait for a shard from it.

    Attributes:
        rank: the rank that opened it first, for messages.
        waiting: callers that wait, in the order of their requests, with their workers.
    """

    def __init__(self, table: ShardTable, rank: int) -> None:
        self.table = table
        self.rank = rank
        self.waiting: dict[Caller, Worker] = {}

    def serve(self) -> Answers:
        """Return the answers to waiting callers that are possible now."""
        answers: Answers = []
        for caller, worker in list(self.waiting.items()):
            answer = _answer(self.table, worker, {"ask": "take", "wait": True})
            if answer is None:
                break
            del self.waiting[caller]
            answers.append((caller, answer))
        return answers


class ShardQueues:
    """All queues of one job.

    A worker is (node, rank). A caller is one of its connections, (node, line). A shard belongs to
    the worker, even if another of its processes has taken it. A request is answered at once, or
    when another request or the end of a worker makes that possible; so each event may answer many.
    """

    def __init__(self) -> None:
        self._queues: dict[str, Queue] = {}

    def ask(self, caller: Caller, worker: Worker, request: dict[str, Any]) -> Answers:
        """Handle a request; return the answers that are possible now, to this and other callers.

        Raises:
            InvalidRequest: it is invalid.
        """
        name = request.get("queue")
        if not isinstance(name, str) or not isinstance(request.get("ask"), str):
            raise InvalidRequest("no queue or no operation given")
        if request["ask"] == "open":
            return [(caller, self._open(name, worker, request.get("spec")))]
        queue = self._queues.get(name)
        if queue is None:
            raise InvalidRequest("this queue has not been opened")
        try:
            answer = _answer(queue.table, worker, request)
        except KeyError:
            raise InvalidRequest(f"unknown operation {request['ask'][:20]!r}") from None
        if answer is None:
            queue.waiting[caller] = worker
            return []
        return [(caller, answer), *queue.serve()]

    def line_closed(self, caller: Caller) -> None:
        """Forget a caller whose connection has ended."""
        for queue in self._queues.values():
            queue.waiting.pop(caller, None)

    def worker_exited(self, worker: Worker) -> Answers:
        """Pass the unfinished shards of a worker that has exited on to others."""
        for queue in self._queues.values():
            queue.table.release(worker)
            for caller in [one for one, of in queue.waiting.items() if of == worker]:
                del queue.waiting[caller]
        return self._serve()

    def node_lost(self, node: Node) -> Answers:
        """Pass the unfinished shards of a lost node's workers on to others."""
        for queue in self._queues.values():
            for worker in [one for one in queue.table.holders if one[0] == node]:
                queue.table.release(worker)
            for caller in [one for one in queue.waiting if one[0] == node]:
                del queue.waiting[caller]
        return self._serve()

    def new_round(self) -> None:
        """Put back all shards that workers of the previous round hold, and forget who waits."""
        for queue in self._queues.values():
            queue.table.new_round()
            queue.waiting.clear()

    def _serve(self) -> Answers:
        return [answer for queue in self._queues.values() for answer in queue.serve()]

    def _open(self, name: str, worker: Worker, spec: object) -> dict[str, Any]:
        if not isinstance(spec, dict):
            raise InvalidRequest("the settings of the queue are missing")
        queue = self._queues.get(name)
        if queue is None:
            return self._make(name, worker, spec)
        known = queue.table.spec
        other = [field for field in known if spec.get(field) != known[field]]
        if not other:
            return {}
        first = f"rank {queue.rank} opened it with {_settings(known, other)}"
        return {"error": f"queue {name!r}: {_settings(spec, other)}, but {first}"}

    def _make(self, name: str, worker: Worker, spec: dict[str, Any]) -> dict[str, Any]:
        if len(self._queues) >= MOST_QUEUES or not 0 < len(name) <= LONGEST_NAME:
            most = f"at most {MOST_QUEUES} queues, with names of 1 to {LONGEST_NAME} characters"
            return {"error": f"queue {name[:LONGEST_NAME]!r}: {most}"}
        try:
            table = ShardTable(**spec)
        except TypeError as error:
            raise InvalidRequest(f"{error}") from None
        except ValueError as error:
            return {"error": f"queue {name!r}: {error}"}
        self._queues[name] = Queue(table, worker[1])
        return {}


def _settings(spec: Mapping[str, Any], fields: Sequence[str]) -> str:
    return ", ".join(f"{field}={spec.get(field)}" for field in fields)


def _answer(table: ShardTable, worker: Worker, request: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return table.ask(worker, request)
    except ValueError as error:
        return {"error": str(error)}
