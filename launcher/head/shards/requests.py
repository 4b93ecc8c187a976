"""The shard queues of a job, as workers ask for them over their nodes' lines."""

from __future__ import annotations

import json

from ...control import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..fleet.node_connection import Peer
    from ..output.console import Console
    from .queues import Answers, Caller, Shards, Worker

ANSWER_LIMIT = 1 << 20
"""Largest answer in bytes: a position with some 50,000 gaps."""


class ShardDesk:
    """Hands questions to the queues and answers to the nodes; jobs without queues load none."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shards: Shards | None = None
        self._generation = 0

    def asked(self, peer: Peer, body: bytes) -> None:
        """Take in an ASK. Workers of a former round get no answer but the end of their line."""
        rank, generation, line, said = frames.unpack_ask(body)
        if generation != self._generation or peer.over:
            peer.send(frames.pack_answer(line, b""))
        elif said:
            self._ask((peer, line), (peer, rank), said)
        elif self._shards is not None:
            self._shards.hung_up((peer, line))

    def ended(self, peer: Peer, rank: int) -> None:
        """Take in that a worker has ended."""
        if self._shards is not None:
            self._answer(self._shards.ended((peer, rank)))

    def lost(self, peer: Peer) -> None:
        """Take in that a node is lost."""
        if self._shards is not None:
            self._answer(self._shards.lost(peer))

    def new_round(self, generation: int) -> None:
        """Take in that a round begins."""
        self._generation = generation
        if self._shards is not None:
            self._shards.new_round()

    def _ask(self, caller: Caller, worker: Worker, said: bytes) -> None:
        from .queues import NotUnderstood, Shards

        self._shards = self._shards or Shards()
        try:
            answers = self._shards.ask(caller, worker, frames.unpack_json(said))
        except (NotUnderstood, frames.BadFrame, RecursionError) as error:
            peer, line = caller
            text = f"{peer.name}: rank {worker[1]}: a request to the shard queues that is none"
            self._console.say(f"{text}: {error}; its lines are closed", "warning")
            peer.send(frames.pack_answer(line, b""))
            return
        self._answer(answers)

    def _answer(self, answers: Answers) -> None:
        for (peer, line), answer in answers:
            said = json.dumps(answer, separators=(",", ":")).encode()
            if len(said) > ANSWER_LIMIT:
                said = b'{"error": "the answer is longer than 1 MiB: too many gaps are open"}'
            peer.send(frames.pack_answer(line, said))
