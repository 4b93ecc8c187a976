"""The shard queues of a job: what their lines may ask, and no sample lost or doubled by chance."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from dsrun.accelerator.data.shard_table import ShardTable
from dsrun.launcher.control import frames
from dsrun.launcher.features.shards.runner_queues import MOST_QUEUES, InvalidRequest, ShardQueues

from ...support.wire import through_json

CHANCES = range(40)

Answer = dict[str, Any]


SPEC = ShardTable(size=100, shard=10, epochs=2).spec


class Job:
    """Workers that ask the queues of a job by their lines; what each was answered last.

    Attributes:
        waiting: workers whose take was not answered yet.
    """

    def __init__(self, **spec: Any) -> None:
        self.shards = ShardQueues()
        self.spec = {**SPEC, **spec}
        self.waiting: set[tuple[int, int]] = set()
        self.held: dict[tuple[int, int], list[list[int]]] = {}

    def ask(
        self, worker: tuple[int, int], ask: str, queue: str = "q", **more: Any
    ) -> Answer | None:
        """Ask on a line of the worker's, which has another one to wait on; None: it waits."""
        node, rank = worker
        caller = worker if ask == "take" else (node, rank + 1000)
        request = through_json({"queue": queue, "ask": ask, **more})
        answers = dict(self._noted(self.shards.ask(caller, worker, request)))
        if caller not in answers:
            self.waiting.add(worker)
        return answers.get(caller)

    def open(self, worker: tuple[int, int], queue: str = "q") -> Answer | None:
        return self.ask(worker, "open", queue, spec=self.spec)

    def take(self, worker: tuple[int, int], wait: bool = True) -> Answer | None:
        return self.ask(worker, "take", wait=wait)

    def done(self, worker: tuple[int, int], shard: list[int], upto: int | None = None) -> None:
        epoch, number, _, stop = shard
        upto = stop if upto is None else upto
        assert self.ask(worker, "done", epoch=epoch, number=number, upto=upto) == {}

    def ended(self, worker: tuple[int, int]) -> None:
        self._gone(worker)
        self._noted(self.shards.worker_exited(worker))

    def lost(self, node: int) -> None:
        for worker in [one for one in {*self.held, *self.waiting} if one[0] == node]:
            self._gone(worker)
        self._noted(self.shards.node_lost(node))

    def new_round(self) -> None:
        self.held.clear()
        self.waiting.clear()
        self.shards.new_round()

    def _gone(self, worker: tuple[int, int]) -> None:
        self.held.pop(worker, None)
        self.waiting.discard(worker)

    def _noted(self, answers: Any) -> Any:
        for caller, answer in answers:
            self.waiting.discard(caller)
            if answer.get("shard"):
                self.held.setdefault(caller, []).append(through_json(answer["shard"]))
        return answers


def test_who_waits_gets_what_comes_back() -> None:
    job = Job(size=20)
    a, b, c = (0, 0), (0, 1), (1, 2)
    job.open(a)
    job.take(a), job.take(b)
    assert job.take(c) is None
    job.ended(b)
    assert [one[1] for one in job.held[c]] == [1]
    assert job.waiting == set()


def test_who_waits_gets_the_next_epoch_or_the_end() -> None:
    job = Job(size=10, epochs=1)
    a, b = (0, 0), (0, 1)
    job.open(a)
    job.take(a)
    assert job.take(b) is None
    job.done(a, job.held[a][0])
    assert job.waiting == set()
    assert job.take(b) == job.take(a) == {"over": True}


def test_a_node_is_lost_with_all_that_its_workers_have_and_wait_for() -> None:
    job = Job(size=30)
    job.open((0, 0))
    job.take((0, 0)), job.take((1, 1)), job.take((1, 2))
    job.take((1, 3)), job.take((2, 4))
    job.lost(1)
    assert sorted(job.held) == [(0, 0), (2, 4)]
    assert job.take((0, 0))


def test_a_line_that_ends_waits_for_nothing() -> None:
    job = Job(size=10)
    job.open((0, 0))
    job.take((0, 0))
    assert job.take((0, 1)) is None
    job.shards.line_closed((0, 1))
    assert job.shards.worker_exited((0, 0)) == []


def test_all_must_mean_the_same_queue() -> None:
    job = Job()
    assert job.open((0, 3)) == {}
    job.spec |= {"size": 99, "seed": 5}
    error = "queue 'q': size=99, seed=5, but rank 3 opened it with size=100, seed=0"
    assert job.open((1, 4)) == {"error": error}
    assert job.open((1, 4), "another") == {}


def test_queues_have_bounds() -> None:
    job = Job()
    assert job.open((0, 0), "x" * 201) != {}
    assert [job.open((0, 0), f"{one}") for one in range(MOST_QUEUES)] == [{}] * MOST_QUEUES
    assert "at most 64 queues" in (job.open((0, 0), "more") or {})["error"]


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"queue": 1, "ask": "take"},
        {"queue": "q"},
        {"queue": "q", "ask": ["take"]},
        {"queue": "q", "ask": "steal"},
        {"queue": "nobody's", "ask": "take"},
        {"queue": "new", "ask": "open", "spec": 1},
        {"queue": "new", "ask": "open", "spec": {"size": 1}},
        {"queue": "new", "ask": "open", "spec": {**SPEC, "more": 1}},
    ],
    ids=str,
)
def test_what_no_queue_asks_is_not_understood(request_: Answer) -> None:
    job = Job()
    job.open((0, 0))
    with pytest.raises(InvalidRequest):
        job.shards.ask((0, 0), (0, 0), request_)


ODD: tuple[Any, ...] = (None, True, -1, 1.5, "x", [], [[]], {}, [1, 2], 1 << 80, {"done": 1})


@pytest.mark.parametrize("ask", ["done", "back", "grow", "load", "take", "state", "open"])
def test_odd_requests_are_answered_with_an_error_or_not_understood(ask: str) -> None:
    job, refused = Job(), 0
    job.open((0, 0))
    for odd in ODD:
        for name in ("epoch", "number", "upto", "shards", "size", "state", "spec"):
            request: Answer = {"queue": "q", "ask": ask, "epoch": 0, "number": 0, name: odd}
            try:
                ((_, answer),) = job.shards.ask((0, 0), (0, 0), request)
                refused += "error" in answer
            except InvalidRequest:
                refused += 1
    assert refused > 20 or ask in {"take", "state"}


@pytest.mark.parametrize(
    ("unpack", "size"),
    [(frames.unpack_shard_request, 12), (frames.unpack_shard_answer, 4)],
    ids=["ask", "answer"],
)
def test_short_frames_are_refused(unpack: Any, size: int) -> None:
    assert unpack(bytes(size - 1) + b"\1") == (*[0] * (size // 4 - 1), 1, b"")
    assert unpack(bytes(size) + b"{}")[-1] == b"{}"
    for less in range(size):
        with pytest.raises(frames.BadFrame):
            unpack(bytes(less))


# -- chance -------------------------------------------------------------------------------------


class Story:
    """A job that chance plays with: workers take, do in parts, end, are lost, restart, restore.

    Attributes:
        trained: what the model has seen, as of the present position: (epoch, sample).
        happened: how often each kind of thing has.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.size, self.epochs = self.chance.randint(1, 120), self.chance.randint(1, 3)
        shard, chosen = self.chance.randint(1, 17), self.chance.randrange(9)
        self.job = Job(size=self.size, shard=shard, epochs=self.epochs, seed=chosen)
        self.trained: list[tuple[int, int]] = []
        self.saved: tuple[Answer, list[tuple[int, int]]] = ({}, [])
        self.happened: Counter[str] = Counter()
        self.over = False
        self._round()

    def run(self) -> None:
        """Play until all is done."""
        moves = [*[self._take] * 8, *[self._do] * 10, self._end, self._lose, self._save]
        while not self.over:
            move = self.chance.choice(
                [*moves, self._restart] if self.happened.total() < 400 else moves
            )
            move()
            self.happened[move.__name__] += 1
            self._look()

    def _round(self) -> None:
        nodes = self.chance.randint(1, 3)
        self.workers = [(rank % nodes, rank) for rank in range(self.chance.randint(1, 5))]
        for worker in self.workers:
            self.job.open(worker)

    def _take(self) -> None:
        worker = self.chance.choice(self.workers)
        if worker not in self.job.waiting:
            answer = self.job.take(worker, self.chance.random() < 0.7)
            self.over = bool(answer and answer.get("over"))

    def _do(self) -> None:
        if not (held := [(who, shard) for who, all_ in self.job.held.items() for shard in all_]):
            return
        worker, shard = self.chance.choice(held)
        epoch, _, start, stop = shard
        upto = self.chance.choice([stop, self.chance.randint(start, stop)])
        if upto == stop:
            self.job.held[worker].remove(shard)
        self.trained += [(epoch, sample) for sample in range(start, upto)]
        shard[2] = upto
        self.job.done(worker, shard, upto)

    def _end(self) -> None:
        self.job.ended(self.chance.choice(self.workers))

    def _lose(self) -> None:
        self.job.lost(self.chance.choice(self.workers)[0])

    def _save(self) -> None:
        answer = self.job.ask((9, 9), "state")
        assert answer
        self.saved = answer["state"], list(self.trained)

    def _restart(self) -> None:
        """All workers anew; most jobs put the model back, and with it the queue."""
        if self.chance.random() < 0.7:
            return
        self.job.new_round()
        self._round()
        if self.chance.random() < 0.8:
            state, self.trained = self.saved[0], list(self.saved[1])
            for worker in self.workers:
                assert self.job.ask(worker, "load", state=state) == {}

    def _look(self) -> None:
        """Nobody has what somebody else has, and nobody waits while there is something."""
        held = [tuple(shard[:2]) for all_ in self.job.held.values() for shard in all_]
        assert len(held) == len(set(held))
        assert max(Counter(self.trained).values(), default=1) == 1
        if self.job.waiting:
            assert held


@pytest.mark.parametrize("seed", CHANCES)
def test_every_sample_is_trained_once_an_epoch_whatever_happens(seed: int) -> None:
    story = Story(seed)
    story.run()
    whole = [(epoch, one) for epoch in range(story.epochs) for one in range(story.size)]
    assert sorted(story.trained) == whole


def test_it_did_happen() -> None:
    happened: Counter[str] = Counter()
    for seed in CHANCES:
        story = Story(seed)
        story.run()
        happened += story.happened
    assert min(happened.values()) > 5 * len(CHANCES)
