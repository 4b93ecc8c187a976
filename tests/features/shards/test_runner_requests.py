"""Shard queues over the lines of nodes: who is answered what, and who is cut off."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dsrun.accelerator.data.shard_table import ShardTable
from dsrun.launcher.control import frames
from dsrun.launcher.features.shards.runner_requests import ANSWER_LIMIT, ShardRequests

SPEC = ShardTable(size=20, shard=10).spec
OPEN = {"queue": "q", "ask": "open", "spec": SPEC}
TAKE = {"queue": "q", "ask": "take", "wait": True}


class Node:
    """A node whose frames are kept: what was answered on which line; None for the end of one."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.over = False
        self.answers: list[tuple[int, Any]] = []

    def send(self, frame: bytes) -> None:
        ((kind, body),) = frames.Decoder().feed(frame)
        assert kind == frames.SHARD_ANSWER
        line, text = frames.unpack_shard_answer(body)
        self.answers.append((line, json.loads(text) if text else None))

    def take_answers(self) -> list[tuple[int, Any]]:
        answers, self.answers = self.answers, []
        return answers


class Job:
    """The requests of two nodes, and what the user is told of them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.requests = ShardRequests(self.send, self.told.append)
        self.n0, self.n1 = Node("n0"), Node("n1")

    def send(self, nodes: Any, frame: bytes) -> None:
        for node in nodes:
            node.send(frame)

    def ask(
        self, node: Node, rank: int, line: int, request: object, generation: int = 0
    ) -> list[tuple[int, Any]]:
        """Return what the node is answered at once."""
        text = request if isinstance(request, bytes) else json.dumps(request).encode()
        body = frames.pack_shard_request(rank, generation, line, text)[5:]
        self.requests.on_ask(node, body)  # type: ignore[arg-type]
        return node.take_answers()

    def exit(self, node: Node, rank: int) -> None:
        self.requests.worker_exited(node, rank)  # type: ignore[arg-type]

    def lose(self, node: Node) -> None:
        self.requests.node_lost(node)  # type: ignore[arg-type]


@pytest.fixture
def job() -> Job:
    """Ranks 0 of n0 and 1 of n1 have taken both shards there are; lines 5 and 6 are theirs."""
    job = Job()
    assert job.ask(job.n0, 0, 5, OPEN) == [(5, {})]
    assert job.ask(job.n0, 0, 5, TAKE) == [(5, {"shard": [0, 0, *order(0)]})]
    assert job.ask(job.n1, 1, 6, TAKE) == [(6, {"shard": [0, 1, *order(1)]})]
    return job


def order(number: int) -> tuple[int, int]:
    """Return the samples of a shard: first, and beyond the last."""
    table = ShardTable(size=20, shard=10)
    taken = [table.take("one") for _ in range(2)]
    found = taken[number]
    assert found
    return found[2:]


def test_who_waits_is_answered_when_a_worker_exits(job: Job) -> None:
    assert job.ask(job.n0, 2, 7, TAKE) == []
    job.exit(job.n1, 1)
    assert job.n0.take_answers() == [(7, {"shard": [0, 1, *order(1)]})]
    assert job.n1.take_answers() == []


def test_who_waits_is_answered_when_a_node_is_lost(job: Job) -> None:
    assert job.ask(job.n1, 3, 8, TAKE) == []
    job.lose(job.n0)
    assert job.n1.take_answers() == [(8, {"shard": [0, 0, *order(0)]})]


def test_a_line_that_was_closed_is_not_answered(job: Job) -> None:
    assert job.ask(job.n0, 2, 7, TAKE) == []
    assert job.ask(job.n0, 2, 7, b"") == []
    job.exit(job.n1, 1)
    assert job.n0.take_answers() == []
    assert job.ask(job.n0, 2, 8, TAKE) == [(8, {"shard": [0, 1, *order(1)]})]


def test_workers_of_another_round_get_the_end_of_their_line(job: Job) -> None:
    assert job.ask(job.n0, 2, 7, TAKE, generation=1) == [(7, None)]
    assert job.ask(job.n0, 2, 7, TAKE) == []
    job.requests.new_round(1)
    assert job.ask(job.n0, 2, 7, TAKE) == [(7, None)]
    assert job.ask(job.n0, 2, 9, TAKE, generation=1) == [(9, {"shard": [0, 0, *order(0)]})]
    assert job.n0.answers == [], "whoever waited in the round before is forgotten"


def test_a_node_that_is_over_gets_the_end_of_its_lines(job: Job) -> None:
    job.n0.over = True
    assert job.ask(job.n0, 0, 5, TAKE) == [(5, None)]
    assert job.told == []


@pytest.mark.parametrize(
    ("request_", "fault"),
    [
        (b"{", "not JSON: "),
        (b"[" * 100_000, "nested too deeply"),
        ({"queue": "q"}, "no queue or no operation given"),
        ({"queue": "q", "ask": "steal"}, "unknown operation 'steal'"),
    ],
)
def test_what_is_no_request_closes_the_workers_lines(
    job: Job, request_: object, fault: str
) -> None:
    assert job.ask(job.n1, 1, 6, request_) == [(6, None)]
    (text,) = job.told
    start = f"n1: rank 1: invalid request to the shard queues: {fault}"
    assert text.startswith(start)
    assert text.endswith("; closing its connections to them")
    assert job.ask(job.n1, 1, 6, TAKE | {"wait": False}) == [(6, {"shard": None})]


def test_an_answer_that_is_too_long_is_an_error(job: Job) -> None:
    table = {**SPEC, "size": None, "shard": 1, "epochs": 1}
    job.ask(job.n0, 0, 5, {"queue": "long", "ask": "open", "spec": table})
    done = [[2 * one, 2 * one + 1] for one in range(90_000)]
    state = job.ask(job.n0, 0, 5, {"queue": "long", "ask": "state"})[0][1]["state"]
    job.ask(job.n0, 0, 5, {"queue": "long", "ask": "load", "state": {**state, "done": done}})
    ((line, answer),) = job.ask(job.n0, 0, 5, {"queue": "long", "ask": "state"})
    assert line == 5
    assert answer == {"error": "the answer is longer than 1 MiB: too many gaps are open"}
    assert ANSWER_LIMIT == 1 << 20


def test_a_job_without_queues_knows_of_none() -> None:
    job = Job()
    job.exit(job.n0, 0)
    job.lose(job.n0)
    job.requests.new_round(1)
    assert job.ask(job.n0, 0, 5, b"", generation=1) == []
    assert job.ask(job.n0, 0, 5, OPEN, generation=1) == [(5, {})]
