"""Requests of workers to the shard queues, which arrive over their nodes' control lines."""

from __future__ import annotations

import json

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ...head.run.run_node import RunNode
    from .runner_queues import Answers, Caller, ShardQueues, Worker

ANSWER_LIMIT = 1 << 20
"""Largest answer in bytes: a position with about 50,000 gaps."""


class ShardRequests:
    """Passes requests to the queues and answers to the nodes; makes the queues when needed."""

    def __init__(
        self, send: Callable[[Sequence[RunNode], bytes], None], warn: Callable[[str], None]
    ) -> None:
        """Begin without queues; `send` sends nodes a frame, `warn` prints a warning."""
        self._send_frame, self._warn = send, warn
        self._queues: ShardQueues | None = None
        self._generation = 0

    def on_ask(self, node: RunNode, body: bytes) -> None:
        """Handle SHARD_REQUEST; the connections of workers of an earlier round are closed."""
        rank, generation, line, request = frames.unpack_shard_request(body)
        if generation != self._generation or node.over:
            self._send(node, line, b"")
        elif request:
            self._ask((node, line), (node, rank), request)
        elif self._queues is not None:
            self._queues.line_closed((node, line))

    def worker_exited(self, node: RunNode, rank: int) -> None:
        """Pass the unfinished shards of a worker that has exited on to others."""
        if self._queues is not None:
            self._answer(self._queues.worker_exited((node, rank)))

    def node_lost(self, node: RunNode) -> None:
        """Pass the unfinished shards of a lost node's workers on to others."""
        if self._queues is not None:
            self._answer(self._queues.node_lost(node))

    def new_round(self, generation: int) -> None:
        """Begin a round: no worker holds a shard or waits for one."""
        self._generation = generation
        if self._queues is not None:
            self._queues.new_round()

    def _ask(self, caller: Caller, worker: Worker, request: bytes) -> None:
        from .runner_queues import InvalidRequest, ShardQueues

        self._queues = self._queues or ShardQueues()
        try:
            answers = self._queues.ask(caller, worker, frames.unpack_json(request))
        except (InvalidRequest, frames.BadFrame, RecursionError) as error:
            node, line = caller
            text = f"{node.name}: rank {worker[1]}: invalid request to the shard queues"
            self._warn(f"{text}: {error}; closing its connections to them")
            self._send(node, line, b"")
            return
        self._answer(answers)

    def _answer(self, answers: Answers) -> None:
        for (node, line), answer in answers:
            text = json.dumps(answer, separators=(",", ":")).encode()
            if len(text) > ANSWER_LIMIT:
                text = b'{"error": "the answer is longer than 1 MiB: too many gaps are open"}'
            self._send(node, line, text)

    def _send(self, node: RunNode, line: int, answer: bytes) -> None:
        self._send_frame((node,), frames.pack_shard_answer(line, answer))
