"""Each sample once per epoch, for any number of ranks, and whenever their number changes."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

from dsrun.accelerator.data import ElasticSampler

from ...support.needs import need_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsrun.accelerator.data.sampler import Last

CHANCES = range(30)


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)


class World:
    """All ranks of a job, which train in step on the batches that their samplers give them."""

    def __init__(self, ranks: int, size: int, state: dict[str, int] | None, **options: Any) -> None:
        self.samplers = [
            ElasticSampler(size, rank=rank, world_size=ranks, **options) for rank in range(ranks)
        ]
        for sampler in self.samplers if state else ():
            sampler.load_state_dict(json.loads(json.dumps(state)))

    def epoch(self, batch: int) -> Iterator[tuple[int, ...]]:
        """Train to the end of an epoch, step by step; yield what each took, in the common order."""
        handed = [iter(sampler) for sampler in self.samplers]
        while any(batches := [list(islice(samples, batch)) for samples in handed]):
            assert len({len(each) for each in batches}) == 1, "a rank would wait for ever"
            for sampler, samples in zip(self.samplers, batches, strict=True):
                sampler.trained(len(samples))
            yield tuple(sample for turn in zip(*batches, strict=True) for sample in turn)

    def state(self) -> dict[str, int]:
        """Return what they save, which is the same for all."""
        states = [sampler.state_dict() for sampler in self.samplers]
        assert all(state == states[0] for state in states)
        return states[0]


class Job:
    """A job in which ranks come and go at random, until it has trained for some epochs."""

    def __init__(self, chance: random.Random, epochs: int, last: Last) -> None:
        self.batch = chance.choice([1, 1, 2, 3, 8])
        self.size = chance.randint(9 * self.batch, 9 * self.batch + 200)
        self.options: dict[str, Any] = {"last": last, "seed": chance.randrange(1000)}
        self.worlds = 0
        self.seen: list[tuple[int, int]] = []
        self._run(chance, epochs)

    def _run(self, chance: random.Random, epochs: int) -> None:
        state = None
        while not state or state["epoch"] < epochs:
            whole = chance.choice([1, self.batch])
            world = World(chance.randint(1, 9), self.size, state, batch=whole, **self.options)
            state = self._train(world, chance.randint(1, 12))
            self.worlds += 1

    def _train(self, world: World, steps: int) -> dict[str, int]:
        """Train for this many steps, or to the end of the epoch; then continue from the state."""
        epoch = world.state()["epoch"]
        for samples in islice(world.epoch(self.batch), steps):
            self.seen += ((epoch, sample) for sample in samples)
        return world.state()


@pytest.mark.parametrize("chance", CHANCES)
def test_the_ranks_come_and_go_and_all_see_what_one_alone_would(chance: int) -> None:
    job = Job(random.Random(chance), 4, "borrow")
    one = ElasticSampler(job.size, seed=job.options["seed"])
    expected: list[int] = []
    while len(expected) < len(job.seen):
        expected += one
        one.set_epoch(one.epoch + 1)
    assert [sample for _, sample in job.seen] == expected[: len(job.seen)]
    assert len(job.seen) >= 4 * job.size


@pytest.mark.parametrize("seed", range(20))
def test_one_alone_sees_each_sample_once_an_epoch(seed: int) -> None:
    for size in (*range(1, 30), 97, 100, 101, 1000):
        sampler = ElasticSampler(size, seed=seed)
        sampler.set_epoch(seed * seed)
        assert sorted(sampler) == list(range(size))


@pytest.mark.parametrize("chance", CHANCES)
def test_drop_leaves_out_less_than_a_step_and_doubles_nothing(chance: int) -> None:
    job = Job(random.Random(chance), 3, "drop")
    for epoch in range(3):
        seen = Counter(sample for at, sample in job.seen if at == epoch)
        assert set(seen.values()) == {1}
        assert job.size - len(seen) < 9 * job.batch


@pytest.mark.parametrize("chance", CHANCES)
def test_pad_doubles_less_than_a_step_and_leaves_out_nothing(chance: int) -> None:
    job = Job(random.Random(chance), 3, "pad")
    for epoch in range(3):
        seen = Counter(sample for at, sample in job.seen if at == epoch)
        assert len(seen) == job.size
        assert seen.total() - job.size < 9 * job.batch


def test_the_ranks_did_come_and_go() -> None:
    """The jobs above have many world sizes, and changes within epochs."""
    jobs = [Job(random.Random(chance), 4, "borrow") for chance in CHANCES]
    assert sum(job.worlds for job in jobs) > 8 * len(jobs)
    assert sum(job.size % 2 for job in jobs) > 10


@pytest.mark.parametrize(
    ("last", "first", "second"),
    [
        ("borrow", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1], [2, 3, 4, 5, 6, 7, 8, 9]),
        ("drop", [0, 1, 2, 3, 4, 5, 6, 7], [0, 1, 2, 3, 4, 5, 6, 7]),
        ("pad", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]),
    ],
)
def test_what_does_not_divide(last: Last, first: list[int], second: list[int]) -> None:
    world = World(4, 10, None, shuffle=False, last=last)
    for expected in (first, second):
        assert [sample for step in world.epoch(1) for sample in step] == expected


def test_borrowed_samples_are_the_first_of_the_next_order() -> None:
    world = World(4, 10, None)
    first = [sample for step in world.epoch(1) for sample in step]
    second = [sample for step in world.epoch(1) for sample in step]
    assert sorted(first[:10]) == sorted(first[10:] + second) == list(range(10))
    assert first[:10] != first[10:] + second


@pytest.mark.parametrize("size", [12, 13, 23, 24, 25])
def test_the_loop_over_epochs_trains_each_sample_once_in_each(size: int) -> None:
    """As documented, with as many ranks as so few samples allow."""
    world = World(4, size, None, batch=3)
    seen: Counter[int] = Counter()
    for epoch in range(6):
        for sampler in world.samplers:
            sampler.set_epoch(epoch)
        seen.update(sample for step in world.epoch(3) for sample in step)
    assert set(seen) == set(range(size))
    assert set(seen.values()) <= {6, 7}, "the last step borrows from epoch 6"


def test_no_batch_is_short_where_the_batch_is_told() -> None:
    world = World(3, 100, None, batch=8)
    assert {len(step) for _ in range(7) for step in world.epoch(8)} == {24}


def test_the_same_global_batches_with_other_ranks() -> None:
    few, many = World(2, 60, None, batch=6), World(4, 60, None, batch=3)
    assert list(few.epoch(6)) == list(many.epoch(3))


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_data_loader_has_fetched_ahead_is_not_trained_on(workers: int) -> None:
    need_modules("torch")
    from torch.utils.data import DataLoader

    numbers: Any = range(103)  # a data set that has each number at its own place
    trained: list[int] = []
    state: dict[str, int] | None = None
    for ranks, steps in ((3, 2), (2, 3), (4, 100)):
        samplers = World(ranks, 103, state, batch=5).samplers
        loaders = [
            iter(DataLoader(numbers, 5, sampler=one, num_workers=workers)) for one in samplers
        ]
        for batches in islice(zip(*loaders, strict=True), steps):
            trained += (number for batch in batches for number in batch.tolist())
            for sampler, batch in zip(samplers, batches, strict=True):
                sampler.trained(len(batch))
        state = samplers[0].state_dict()
    borrowed = len(trained) - 103
    assert state == {"size": 103, "shuffle": True, "seed": 0, "epoch": 1, "position": borrowed}
    following = ElasticSampler(103)
    following.set_epoch(1)
    assert Counter(trained) == Counter([*range(103), *islice(following, borrowed)])


def test_a_step_that_was_not_told_is_made_again() -> None:
    sampler = ElasticSampler(100, rank=1, world_size=2)
    before = list(islice(sampler, 8))
    assert list(islice(sampler, 8)) == before
    sampler.trained(4)
    assert list(islice(sampler, 4)) == before[4:]


def test_an_iterator_goes_on_as_it_began() -> None:
    sampler = ElasticSampler(100)
    whole = list(sampler)
    samples = iter(sampler)
    sampler.trained(50)
    assert list(samples) == whole
    assert list(sampler) == whole[50:]


def test_to_set_the_epoch_one_is_in_keeps_the_place() -> None:
    sampler = ElasticSampler(10)
    sampler.trained(4)
    sampler.set_epoch(0)
    assert (sampler.epoch, sampler.position, len(sampler)) == (0, 4, 6)
    sampler.set_epoch(1)
    assert (sampler.epoch, sampler.position, len(sampler)) == (1, 0, 10)


def test_the_rest_that_is_too_small_for_more_ranks_is_dropped() -> None:
    few = ElasticSampler(10, world_size=2, last="drop")
    few.trained(4)
    many = ElasticSampler(10, world_size=4, last="drop")
    many.load_state_dict(few.state_dict())
    assert (few.epoch, many.epoch, many.position, len(many)) == (0, 1, 0, 2)


def test_the_order_is_the_same_for_ever() -> None:
    """Saved positions depend on this order: if it changed, training would repeat samples."""
    assert list(ElasticSampler(12, seed=7)) == [10, 9, 0, 6, 11, 8, 5, 3, 7, 1, 4, 2]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    orders = []
    for seed in range(5):
        sampler = ElasticSampler(50, seed=seed)
        for epoch in range(5):
            sampler.set_epoch(epoch)
            orders.append(tuple(sampler))
    assert len(set(orders)) == 25


def test_a_small_order_is_as_random_as_a_shuffle() -> None:
    """Each sample is at each place equally often, and so is each difference of two neighbours."""
    sampler = ElasticSampler(10)
    places: Counter[tuple[int, int]] = Counter()
    differences: dict[int, Counter[int]] = {apart: Counter() for apart in (1, 2, 3, 4)}
    for epoch in range(2000):
        sampler.set_epoch(epoch)
        order = list(sampler)
        places.update(enumerate(order))
        for apart, counts in differences.items():
            pairs = zip(order, order[apart:], strict=False)
            counts.update((there - here) % 10 for here, there in pairs)
    assert surprise(list(places.values()), 100) < 4
    for counts in differences.values():
        assert surprise(list(counts.values()), 9) < 4


def test_batches_of_sorted_data_are_as_mixed_as_draws() -> None:
    """A hundred classes in order: batches have them in a hypergeometric distribution."""
    order = iter(ElasticSampler(100_000))
    spread = 0.0
    for _ in range(97):
        classes = Counter(index // 1000 for index in islice(order, 1024))
        spread += sum((classes[each] - 10.24) ** 2 for each in range(100)) / 100
    assert spread / 97 == pytest.approx(10.24 * 0.99 * (1 - 1024 / 100_000), rel=0.05)


def surprise(counts: list[int], kinds: int) -> float:
    """Return by how many standard deviations chi-square exceeds that of equal chances."""
    mean = sum(counts) / kinds
    missing = (kinds - len(counts)) * mean
    square = sum((count - mean) ** 2 / mean for count in counts) + missing
    return float((square - (kinds - 1)) / (2 * (kinds - 1)) ** 0.5)


def test_ten_million_samples_take_no_memory() -> None:
    tracemalloc.start()
    try:
        sampler = ElasticSampler(10_000_000, rank=5, world_size=8)
        sampler.trained(700_000)
        assert len(set(islice(sampler, 1000))) == 1000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_rank_and_world_size_are_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(ElasticSampler(6, shuffle=False)) == [0, 1, 2, 3, 4, 5]
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert list(ElasticSampler(6, shuffle=False)) == [1, 4]
    assert list(ElasticSampler(6, rank=0, world_size=2, shuffle=False)) == [0, 2, 4]


@pytest.mark.parametrize(
    ("size", "options", "complaint"),
    [
        (0, {}, "size=0, batch=1: both must be at least 1"),
        (5, {"batch": 0}, "size=5, batch=0: both must be at least 1"),
        (5, {"rank": 2, "world_size": 2}, r"rank=2: expected 0 to world_size - 1 \(1\)"),
        (5, {"rank": -1}, r"rank=-1: expected 0 to world_size - 1 \(0\)"),
        (5, {"last": "keep"}, "last='keep': expected 'borrow', 'drop' or 'pad'"),
        (
            5,
            {"world_size": 3, "batch": 2, "last": "drop"},
            "5 samples are too few for 3 ranks with 2 each",
        ),
        (5, {"world_size": 6}, "too few for 6 ranks with 1 each: one step would exceed an epoch"),
    ],
)
def test_what_cannot_be_is_refused(size: int, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        ElasticSampler(size, **options)


@pytest.mark.parametrize("samples", [-1, 6])
def test_more_than_the_epoch_has_cannot_have_been_trained_on(samples: int) -> None:
    """As if the samples of all ranks were passed instead of those of one."""
    sampler = ElasticSampler(10, world_size=2)
    with pytest.raises(ValueError, match=rf"trained\({samples}\): epoch 0 has only 5"):
        sampler.trained(samples)
    assert sampler.position == 0


@pytest.mark.parametrize(
    ("size", "options", "complaint"),
    [
        (11, {}, "the saved position is for size 10, not 11"),
        (10, {"seed": 1}, "the saved position is for seed 0, not 1"),
        (10, {"shuffle": False}, "the saved position is for shuffle True, not False"),
    ],
)
def test_a_position_in_another_order_is_refused(
    size: int, options: dict[str, Any], complaint: str
) -> None:
    state = ElasticSampler(10).state_dict()
    with pytest.raises(ValueError, match=complaint):
        ElasticSampler(size, **options).load_state_dict(state)
