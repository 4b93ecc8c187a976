"""Shard queues: every sample once an epoch, whoever takes, does, fails, comes back or restores."""

from __future__ import annotations

import json
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dsrun.accelerator.ledger import MOST_HELD, Ledger
from dsrun.accelerator.shards import Shard, ShardQueue
from dsrun.launcher.control import frames
from dsrun.launcher.head.shards.queues import MOST_QUEUES, NotUnderstood, Shards

from .cluster.machines import wait_for
from .needs import need_modules

CHECKOUT = Path(__file__).parent.parent
CHANCES = range(40)

Answer = dict[str, Any]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "DSRUN_QUEUE_FD"):
        monkeypatch.delenv(name, raising=False)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value))


def everything(ledger: Ledger) -> list[tuple[int, int]]:
    """Take and do all that is left; (epoch, sample) in that order."""
    samples = []
    while found := ledger.take("one"):
        epoch, number, start, stop = found
        samples += [(epoch, sample) for sample in range(start, stop)]
        ledger.done("one", epoch, number, stop)
    return samples


# -- the ledger ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("size", "shard"), [(1, 1), (1, 9), (10, 3), (64, 8), (1000, 7)])
def test_each_sample_comes_once_an_epoch(size: int, shard: int, shuffle: bool) -> None:
    ledger = Ledger(size=size, shard=shard, epochs=3, shuffle=shuffle)
    samples = everything(ledger)
    assert Counter(samples) == Counter((epoch, one) for epoch in range(3) for one in range(size))
    assert [epoch for epoch, _ in samples] == sorted(epoch for epoch, _ in samples)
    assert ledger.over


def test_seed_and_epoch_alone_decide_the_order() -> None:
    def order(seed: int) -> list[tuple[int, int]]:
        return everything(Ledger(size=500, shard=5, epochs=2, seed=seed))

    assert order(3) == order(3) != order(4)
    first, second = order(3)[:500], order(3)[500:]
    assert [one for _, one in first] != [one for _, one in second]
    assert [one for _, one in first] != list(range(500))


def test_what_comes_back_goes_to_the_front() -> None:
    ledger = Ledger(size=50, shard=10, shuffle=False)
    taken = [ledger.take(holder) for holder in ("a", "b", "a")]
    assert [one and one[1] for one in taken] == [0, 1, 2]
    ledger.release("a")
    assert [one and one[1] for one in (ledger.take("c") for _ in range(3))] == [0, 2, 3]


def test_the_rest_of_a_shard_that_was_begun_goes_to_others() -> None:
    ledger = Ledger(size=20, shard=10, shuffle=False)
    assert ledger.take("a") == (0, 0, 0, 10)
    ledger.done("a", 0, 0, 4)
    ledger.release("a")
    assert ledger.take("b") == (0, 0, 4, 10)
    ledger.done("b", 0, 0, 10)
    assert ledger.take("b") == (0, 1, 10, 20)


def test_the_next_epoch_begins_when_all_of_this_one_is_done() -> None:
    ledger = Ledger(size=20, shard=10, epochs=2, shuffle=False)
    ledger.take("a"), ledger.take("b")
    ledger.done("a", 0, 0, 10)
    assert ledger.take("a") is None
    ledger.done("b", 0, 1, 20)
    assert ledger.take("a") == (1, 0, 0, 10)


def test_done_counts_once_and_for_the_holder_alone() -> None:
    ledger = Ledger(size=100, shard=10, shuffle=False)
    ledger.take("a")
    with pytest.raises(ValueError, match=r"^shard 0 of epoch 0 is no longer this worker's: it is"):
        ledger.done("b", 0, 0, 10)
    ledger.done("a", 0, 0, 10)
    with pytest.raises(ValueError, match="no longer this worker's"):
        ledger.done("a", 0, 0, 10)
    ledger.take("a")
    for upto in (9, 21):
        with pytest.raises(ValueError, match=r"^shard 1 of epoch 0: no samples 10 to"):
            ledger.done("a", 0, 1, upto)
    assert ledger.state()["done"] == [[0, 1]]


def test_one_holder_cannot_have_all() -> None:
    ledger = Ledger(size=1_000_000, shard=1)
    for _ in range(MOST_HELD):
        ledger.take("greedy")
    with pytest.raises(ValueError, match=r"^1024 shards are taken and not done"):
        ledger.take("greedy")
    assert ledger.take("other")


def test_a_billion_shards_take_no_room() -> None:
    tracemalloc.start()
    ledger = Ledger(size=10**12, shard=1000, epochs=2)
    for _ in range(1000):
        epoch, number, _, stop = ledger.take("a") or (0, 0, 0, 0)
        ledger.done("a", epoch, number, stop)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 16 << 20
    assert len(json.dumps(ledger.state())) < 200


# -- positions ----------------------------------------------------------------------------------


def test_a_position_is_ranges_and_is_the_same_to_any_ledger() -> None:
    ledger = Ledger(size=100, shard=10, shuffle=False)
    for _ in range(6):
        ledger.take("a")
    for number in (0, 1, 4):
        ledger.done("a", 0, number, 10 * number + 10)
    ledger.done("a", 0, 2, 23)
    state = through_json(ledger.state())
    assert (state["done"], state["begun"]) == ([[0, 2], [4, 5]], [[2, 3]])
    again = Ledger(size=100, shard=10, shuffle=False)
    again.load(state)
    assert again.state() == state
    assert everything(again) == [(0, one) for one in (*range(23, 40), *range(50, 100))]


def test_the_first_to_load_sets_the_position_for_a_round() -> None:
    ledger = Ledger(size=100, shard=10)
    start = ledger.state()
    ledger.load(start)
    ledger.take("a")
    ledger.load(through_json(start))  # a rank that is slower
    assert len(ledger.holders) == 1
    with pytest.raises(ValueError, match="another position was loaded before"):
        ledger.load({**start, "done": [[0, 1]]})
    ledger.new_round()
    ledger.load({})
    assert ledger.state() == start


def test_a_position_is_loaded_before_anything_is_taken() -> None:
    ledger = Ledger(size=100, shard=10)
    ledger.take("a")
    with pytest.raises(ValueError, match=r"^shards were taken before: load the position first"):
        ledger.load({})
    ledger.new_round()
    ledger.load({})


def test_a_position_of_the_end_is_the_end() -> None:
    ledger = Ledger(size=10, shard=5)
    everything(ledger)
    again = Ledger(size=10, shard=5)
    again.load(ledger.state())
    assert (again.over, again.take("a")) == (True, None)


WHOLE = {**Ledger(size=100, shard=10).state(), "done": [[0, 2], [4, 5]], "begun": [[2, 3]]}


@pytest.mark.parametrize(
    "wrong",
    [
        *({**WHOLE, name: 7} for name in ("size", "shard", "seed", "done", "begun")),
        *({**WHOLE, "epoch": one} for one in (-1, 1.5, None, "0", True)),
        *({**WHOLE, "done": one} for one in ([[0, 11]], [[3, 2]], [[0, 5], [4, 6]], [[0]], [0])),
        *(
            {**WHOLE, "begun": one}
            for one in ([[4, 3]], [[2, 10]], [[2, 0]], [[10, 1]], [["a", 1]])
        ),
        {name: value for name, value in WHOLE.items() if name != "done"},
        {**WHOLE, "more": 1},
    ],
    ids=str,
)
def test_a_position_of_another_queue_is_refused(wrong: Answer) -> None:
    ledger = Ledger(size=100, shard=10)
    with pytest.raises(ValueError, match="position"):
        ledger.load(wrong)
    ledger.load(WHOLE)
    assert ledger.state() == WHOLE


# -- streams ------------------------------------------------------------------------------------


def test_a_stream_is_numbered_on_and_never_ends() -> None:
    ledger = Ledger(size=None, shard=512)
    found = [ledger.take("a") for _ in range(100)]
    assert found[99] == (0, 99, 99 * 512, 100 * 512)
    assert not ledger.over


def test_a_growing_stream_has_what_was_announced() -> None:
    ledger = Ledger(size=None, shard=10, growing=True)
    assert ledger.take("a") is None
    ledger.grow(25, False)
    assert [ledger.take("a") for _ in range(3)] == [(0, 0, 0, 10), (0, 1, 10, 20), None]
    ledger.grow(25, True)
    assert ledger.take("a") == (0, 2, 20, 25)
    ledger.release("a")
    assert everything(ledger) == [(0, one) for one in range(25)]
    assert ledger.over


def test_a_growing_stream_goes_on_from_a_position() -> None:
    ledger = Ledger(size=None, shard=10, growing=True)
    ledger.grow(95, True)
    for _ in range(4):
        ledger.take("a")
    ledger.done("a", 0, 1, 20)
    again = Ledger(size=None, shard=10, growing=True)
    again.load(through_json(ledger.state()))
    assert everything(again) == [(0, one) for one in (*range(10), *range(20, 95))]
    assert again.over


@pytest.mark.parametrize(
    ("known", "said", "why"),
    [
        ((50, True), (60, False), "the stream has ended at 50 samples, not 60"),
        ((50, True), (40, True), "the stream has ended at 50 samples, not 40"),
        ((50, False), (40, True), "the stream cannot end at 40 samples: it has 50 already"),
        ((0, False), (-1, False), "samples of a stream: -1 is no whole number from 0 on"),
    ],
)
def test_a_stream_does_not_change_its_word(
    known: tuple[int, bool], said: tuple[int, bool], why: str
) -> None:
    ledger = Ledger(size=None, shard=10, growing=True)
    ledger.grow(*known)
    with pytest.raises(ValueError, match=f"^{why}$"):
        ledger.grow(*said)


@pytest.mark.parametrize(
    "spec",
    [
        *({"size": one} for one in (0, -1, 1.0, "9", True, 1 << 62)),
        *({"shard": one} for one in (0, None, 2.5)),
        *({"epochs": one} for one in (0, None)),
        {"seed": "x"},
        {"shuffle": 1},
        {"size": None, "epochs": 2},
        {"growing": True},
        {"size": 1_000_000_001, "shard": 1},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_refused(spec: Answer) -> None:
    with pytest.raises(ValueError, match=r"."):
        Ledger(**{"size": 100, "shard": 10, **spec})


# -- the queues of a job ------------------------------------------------------------------------

SPEC = Ledger(size=100, shard=10, epochs=2).spec


class Job:
    """Workers that ask the queues of a job by their lines; what each was answered last.

    Attributes:
        waiting: workers whose take was not answered yet.
    """

    def __init__(self, **spec: Any) -> None:
        self.shards = Shards()
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
        self._noted(self.shards.ended(worker))

    def lost(self, node: int) -> None:
        for worker in [one for one in {*self.held, *self.waiting} if one[0] == node]:
            self._gone(worker)
        self._noted(self.shards.lost(node))

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
    job.shards.hung_up((0, 1))
    assert job.shards.ended((0, 0)) == []


def test_all_must_mean_the_same_queue() -> None:
    job = Job()
    assert job.open((0, 3)) == {}
    job.spec |= {"size": 99, "seed": 5}
    error = "queue 'q': size=99, not 100, seed=5, not 0 as rank 3 has named it"
    assert job.open((1, 4)) == {"error": error}
    assert job.open((1, 4), "another") == {}


def test_queues_have_bounds() -> None:
    job = Job()
    assert job.open((0, 0), "x" * 201) != {}
    assert [job.open((0, 0), f"{one}") for one in range(MOST_QUEUES)] == [{}] * MOST_QUEUES
    assert "64 queues at most" in (job.open((0, 0), "more") or {})["error"]


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
    with pytest.raises(NotUnderstood):
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
            except NotUnderstood:
                refused += 1
    assert refused > 20 or ask in {"take", "state"}


@pytest.mark.parametrize(
    ("unpack", "size"), [(frames.unpack_ask, 12), (frames.unpack_answer, 4)], ids=["ask", "answer"]
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


# -- a process alone ----------------------------------------------------------------------------


def test_alone_it_works_within_the_process() -> None:
    seen: list[int] = []
    with ShardQueue("train", size=100, shard=9, epochs=2) as queue:
        for shard in queue:
            seen += shard
            queue.done(shard)
        assert queue.over
    assert sorted(seen) == sorted([*range(100), *range(100)])


def test_alone_it_goes_on_from_its_state() -> None:
    with ShardQueue("train", size=100, shard=10) as queue:
        first = queue.take()
        assert first
        queue.done(first, 4)
        state = through_json(queue.state_dict())
    with ShardQueue("train", size=100, shard=10) as again:
        again.load_state_dict(state)
        rest = [index for shard in _did(again) for index in shard]
    assert sorted([*list(first)[:4], *rest]) == list(range(100))


def _did(queue: ShardQueue) -> list[Shard]:
    shards = []
    for shard in queue:
        queue.done(shard)
        shards.append(shard)
    return shards


def test_alone_it_says_where_it_would_wait_for_itself() -> None:
    with ShardQueue("train", size=10, shard=10) as queue:
        assert queue.take()
        assert queue.take(wait=False) is None
        assert not queue.over
        with pytest.raises(
            RuntimeError, match=r"^there is nothing to take, and nobody to wait for"
        ):
            queue.take()


def test_leaving_gives_back() -> None:
    queue = ShardQueue("train", size=10, shard=10)
    with queue:
        queue.take()
    assert queue.take()


def test_many_workers_need_dsrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        RuntimeError, match=r"many workers here: have dsrun keep it, --shard_queue$"
    ):
        ShardQueue("train", size=10, shard=10)


@pytest.mark.parametrize("value", ["", "x:y", "99999:1", f"0:{os.stat(0).st_ino + 1}"])
def test_a_descriptor_of_something_else_is_not_used(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("DSRUN_QUEUE_FD", value)
    with pytest.raises(RuntimeError, match=r"^DSRUN_QUEUE_FD is set, but this process has not"):
        ShardQueue("train", size=10, shard=10)


def test_it_is_not_sent_to_other_processes() -> None:
    queue = ShardQueue("train", size=10, shard=10)
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(queue)
    shard = queue.take()
    assert list(pickle.loads(pickle.dumps(shard))) == list(range(10))


def test_the_example_works_alone(tmp_path: Path) -> None:
    need_modules("torch")
    import torch

    example = str(CHECKOUT / "examples" / "train_shards.py")
    file = str(tmp_path / "model.pt")
    words = ["--size=300", "--shard=20", "--epochs=1", "--history", "--checkpoint", file]
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT / "tests" / "import")}
    subprocess.run([sys.executable, example, *words], env=environ, check=True, timeout=60)
    history = torch.load(file, weights_only=True)["history"]
    assert sorted(sample for step in history for sample in step) == [(0, one) for one in range(300)]


# -- under dsrun, on this machine ---------------------------------------------------------------

START = """
import json, os, pickle, socket, sys, time
from dsrun.accelerator.shards import ShardQueue
rank = os.environ["RANK"]
def lines():
    number = int(os.environ["DSRUN_QUEUE_FD"].partition(":")[0])
    return socket.socket(fileno=os.dup(number))
def line(desk):
    ours, theirs = socket.socketpair()
    socket.send_fds(desk, [b"line"], [theirs.fileno()])
    theirs.close()
    return ours
def say(*words):
    print(*words, flush=True)
"""


def dsrun(folder: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run these workers here, by the real dsrun."""
    (folder / "work.py").write_text(START + textwrap.dedent(text))
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("DSRUN", "PYTHON"))}
    words = ["--accelerator", "cpu", "--prefix", "{rank} ", *options]
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "bin" / "dsrun"), *words, "work.py"],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(CHECKOUT / "tests" / "import")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def numbers(output: str, word: str) -> list[int]:
    lines = [line.split()[2:] for line in output.splitlines() if line.split()[1:2] == [word]]
    return sorted(int(one) for line in lines for one in line)


def test_workers_share_a_queue(tmp_path: Path) -> None:
    """The last one to have a shard keeps the others waiting; forked processes take as well."""
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=1000, shard=30, epochs=2)
        if rank == "1" and (child := os.fork()):
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for shard in queue:
            open(rank, "w")
            while not all(map(os.path.exists, "012")):
                time.sleep(0.01)
            say("trained", *shard)
            queue.done(shard)
        assert queue.over
        """,
        "--num_gpus=3",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert numbers(ran.stdout, "trained") == sorted([*range(1000)] * 2)
    assert {line.split()[0] for line in ran.stdout.splitlines()} == {"0", "1", "2"}


def test_a_shard_is_the_workers_whichever_process_has_taken_it(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=20, shard=10)
        read, write = os.pipe()
        if not os.fork():
            os.write(write, pickle.dumps(queue.take()))
            os._exit(0)
        shard = pickle.loads(os.read(read, 999))
        os.wait()
        assert queue.take().number != shard.number
        queue.done(shard)
        say("done", *shard)
        try:
            queue.done(shard)
        except ValueError as error:
            say(error)
        """,
        "--num_gpus=1",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert len(numbers(ran.stdout, "done")) == 10
    assert "0 shard 0 of epoch 0 is no longer this worker's" in ran.stdout


def test_what_a_worker_leaves_running_takes_nothing(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        queue = ShardQueue("train", size=1000, shard=10)
        if rank == "1":
            if os.fork():
                os._exit(0)
            while os.getppid() != int(os.environ["DSRUN_NODE_LAUNCHER"].split(":")[0]):
                time.sleep(0.01)
            try:
                for shard in queue:
                    queue.done(shard)
                    time.sleep(0.01)
            except OSError:
                say("refused")
            open("over", "w")
            os._exit(0)
        while not os.path.exists("over"):
            time.sleep(0.01)
        for shard in queue:
            queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert "1 refused" in ran.stdout


def test_who_waits_hears_that_the_runner_is_gone(tmp_path: Path) -> None:
    """Even one that does not die of the signal that comes then."""
    ran = dsrun(
        tmp_path,
        """
        import signal
        def parent(pid):
            with open(f"/proc/{pid}/stat") as file:
                return int(file.read().rpartition(")")[2].split()[1])
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        queue = ShardQueue("train", size=10, shard=10)
        if queue.take(wait=False):
            while not os.path.exists("waits"):
                time.sleep(0.01)
            os.kill(parent(parent(os.getppid())), signal.SIGKILL)
            sys.exit()
        open("waits", "w")
        try:
            queue.take()
        except OSError:
            open("heard", "w")
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == -signal.SIGKILL
    wait_for((tmp_path / "heard").exists, "the worker to hear of it", 10)


def test_a_data_loader_takes_in_its_own_processes(tmp_path: Path) -> None:
    need_modules("torch", "numpy")
    ran = dsrun(
        tmp_path,
        """
        from torch.utils.data import DataLoader, IterableDataset

        class Batches(IterableDataset):
            def __init__(self, queue):
                self.queue = queue
            def __iter__(self):
                for shard in self.queue:
                    yield shard, [index * 10 for index in shard]

        queue = ShardQueue("train", size=90, shard=4, epochs=2)
        loading = {"batch_size": None, "num_workers": 2, "in_order": False}
        for shard, samples in DataLoader(Batches(queue), **loading):
            say("trained", *(sample // 10 for sample in samples))
            queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert numbers(ran.stdout, "trained") == sorted([*range(90)] * 2)


def test_workers_that_do_not_mean_the_same_are_told(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        if rank == "1":
            while not os.path.exists("named"):
                time.sleep(0.01)
        try:
            ShardQueue("train", size=10 + int(rank), shard=3)
        except ValueError as error:
            say(error)
        open("named", "w")
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "1 queue 'train': size=11, not 10 as rank 0 has named it\n"


def test_without_the_option_there_is_no_descriptor(tmp_path: Path) -> None:
    ran = dsrun(
        tmp_path,
        """
        say("DSRUN_QUEUE_FD" in os.environ, len(os.listdir("/proc/self/fd")) - 1)
        """,
        "--num_gpus=1",
    )
    assert ran.stdout == "0 False 3\n"


GARBAGE = {
    "noise": (r'mine.sendall(b"\xff{" + b"x" * 999 + b"\n")', "a request to the shard queues that"),
    "no object": (r'mine.sendall(b"[1]\n")', "a request to the shard queues that is none"),
    "empty": (r'mine.sendall(b"\n")', "an empty request"),
    "endless": (r'mine.sendall(b"x" * (8 << 20))', "a request of more than 1048576 bytes"),
    "flood": (r'mine.sendall(b"{}\n" * 1_000_000)', "more than one request at a time"),
    "lines": (r"[line(desk) for _ in range(999)]", "more than 64 lines"),
    "a file": (r"socket.send_fds(desk, [b'x'], [1])", ""),
    "nothing": (r"desk.send(b'')", ""),
}


@pytest.mark.parametrize(("deed", "note"), GARBAGE.values(), ids=list(GARBAGE))
def test_who_talks_nonsense_loses_its_lines_and_nobody_else_is_hurt(
    tmp_path: Path, deed: str, note: str
) -> None:
    ran = dsrun(
        tmp_path,
        f"""
        desk = lines()
        mine = line(desk)
        if rank == "1":
            try:
                {deed}
                assert {not note} or mine.recv(9) == b""
            except OSError:
                pass
            try:
                ShardQueue("train", size=300, shard=3)
            except OSError as error:
                say("closed")
            open("gone", "w")
        while not os.path.exists("gone"):
            time.sleep(0.01)
        if rank == "0":
            with ShardQueue("train", size=300, shard=3) as queue:
                for shard in queue:
                    say("trained", *shard)
                    queue.done(shard)
        """,
        "--num_gpus=2",
        "--shard_queue",
    )
    assert ran.returncode == 0, ran.stderr
    assert numbers(ran.stdout, "trained") == list(range(300))
    assert "1 closed" in ran.stdout
    assert ran.stderr.count("\n") == bool(note)
    assert note in ran.stderr
