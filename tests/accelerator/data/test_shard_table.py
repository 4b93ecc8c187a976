"""Who has which shard: every sample once per epoch, whatever is taken, done or given back."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from typing import Any

import pytest

from dsrun.accelerator.data.shard_table import MOST_HELD, ShardTable

from ...support.wire import through_json


def everything(ledger: ShardTable) -> list[tuple[int, int]]:
    """Take and do all that is left; return (epoch, sample) in that order."""
    samples = []
    while found := ledger.take("one"):
        epoch, number, start, stop = found
        samples += [(epoch, sample) for sample in range(start, stop)]
        ledger.done("one", epoch, number, stop)
    return samples


# -- the table ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("size", "shard"), [(1, 1), (1, 9), (10, 3), (64, 8), (1000, 7)])
def test_each_sample_comes_once_an_epoch(size: int, shard: int, shuffle: bool) -> None:
    ledger = ShardTable(size=size, shard=shard, epochs=3, shuffle=shuffle)
    samples = everything(ledger)
    assert Counter(samples) == Counter((epoch, one) for epoch in range(3) for one in range(size))
    assert [epoch for epoch, _ in samples] == sorted(epoch for epoch, _ in samples)
    assert ledger.over


def test_seed_and_epoch_alone_decide_the_order() -> None:
    def order(seed: int) -> list[tuple[int, int]]:
        return everything(ShardTable(size=500, shard=5, epochs=2, seed=seed))

    assert order(3) == order(3) != order(4)
    first, second = order(3)[:500], order(3)[500:]
    assert [one for _, one in first] != [one for _, one in second]
    assert [one for _, one in first] != list(range(500))


def test_what_comes_back_goes_to_the_front() -> None:
    ledger = ShardTable(size=50, shard=10, shuffle=False)
    taken = [ledger.take(holder) for holder in ("a", "b", "a")]
    assert [one and one[1] for one in taken] == [0, 1, 2]
    ledger.release("a")
    assert [one and one[1] for one in (ledger.take("c") for _ in range(3))] == [0, 2, 3]


def test_the_rest_of_a_shard_that_was_begun_goes_to_others() -> None:
    ledger = ShardTable(size=20, shard=10, shuffle=False)
    assert ledger.take("a") == (0, 0, 0, 10)
    ledger.done("a", 0, 0, 4)
    ledger.release("a")
    assert ledger.take("b") == (0, 0, 4, 10)
    ledger.done("b", 0, 0, 10)
    assert ledger.take("b") == (0, 1, 10, 20)


def test_the_next_epoch_begins_when_all_of_this_one_is_done() -> None:
    ledger = ShardTable(size=20, shard=10, epochs=2, shuffle=False)
    ledger.take("a"), ledger.take("b")
    ledger.done("a", 0, 0, 10)
    assert ledger.take("a") is None
    ledger.done("b", 0, 1, 20)
    assert ledger.take("a") == (1, 0, 0, 10)


def test_done_counts_once_and_for_the_holder_alone() -> None:
    ledger = ShardTable(size=100, shard=10, shuffle=False)
    ledger.take("a")
    with pytest.raises(ValueError, match=r"^shard 0 of epoch 0 is no longer this worker's: it is"):
        ledger.done("b", 0, 0, 10)
    ledger.done("a", 0, 0, 10)
    with pytest.raises(ValueError, match="no longer this worker's"):
        ledger.done("a", 0, 0, 10)
    ledger.take("a")
    for upto in (9, 21):
        with pytest.raises(ValueError, match=r"^shard 1 of epoch 0 has no samples 10 to"):
            ledger.done("a", 0, 1, upto)
    assert ledger.state()["done"] == [[0, 1]]


def test_one_holder_cannot_have_all() -> None:
    ledger = ShardTable(size=1_000_000, shard=1)
    for _ in range(MOST_HELD):
        ledger.take("greedy")
    with pytest.raises(ValueError, match=r"^1024 shards are taken but not done"):
        ledger.take("greedy")
    assert ledger.take("other")


def test_a_billion_shards_take_no_room() -> None:
    tracemalloc.start()
    ledger = ShardTable(size=10**12, shard=1000, epochs=2)
    for _ in range(1000):
        epoch, number, _, stop = ledger.take("a") or (0, 0, 0, 0)
        ledger.done("a", epoch, number, stop)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 16 << 20
    assert len(json.dumps(ledger.state())) < 200


# -- positions ----------------------------------------------------------------------------------


def test_a_position_is_ranges_and_is_the_same_to_any_ledger() -> None:
    ledger = ShardTable(size=100, shard=10, shuffle=False)
    for _ in range(6):
        ledger.take("a")
    for number in (0, 1, 4):
        ledger.done("a", 0, number, 10 * number + 10)
    ledger.done("a", 0, 2, 23)
    state = through_json(ledger.state())
    assert (state["done"], state["begun"]) == ([[0, 2], [4, 5]], [[2, 3]])
    again = ShardTable(size=100, shard=10, shuffle=False)
    again.load(state)
    assert again.state() == state
    assert everything(again) == [(0, one) for one in (*range(23, 40), *range(50, 100))]


def test_the_first_to_load_sets_the_position_for_a_round() -> None:
    ledger = ShardTable(size=100, shard=10)
    start = ledger.state()
    ledger.load(start)
    ledger.take("a")
    ledger.load(through_json(start))  # a rank that is slower
    assert len(ledger.holders) == 1
    with pytest.raises(ValueError, match="another position has been loaded"):
        ledger.load({**start, "done": [[0, 1]]})
    ledger.new_round()
    ledger.load({})
    assert ledger.state() == start


def test_a_position_is_loaded_before_anything_is_taken() -> None:
    ledger = ShardTable(size=100, shard=10)
    ledger.take("a")
    with pytest.raises(ValueError, match=r"^shards were already taken: load the position first"):
        ledger.load({})
    ledger.new_round()
    ledger.load({})


def test_a_position_of_the_end_is_the_end() -> None:
    ledger = ShardTable(size=10, shard=5)
    everything(ledger)
    again = ShardTable(size=10, shard=5)
    again.load(ledger.state())
    assert (again.over, again.take("a")) == (True, None)


WHOLE = {**ShardTable(size=100, shard=10).state(), "done": [[0, 2], [4, 5]], "begun": [[2, 3]]}


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
def test_a_position_of_another_queue_is_refused(wrong: dict[str, Any]) -> None:
    ledger = ShardTable(size=100, shard=10)
    with pytest.raises(ValueError, match="position"):
        ledger.load(wrong)
    ledger.load(WHOLE)
    assert ledger.state() == WHOLE


# -- streams ------------------------------------------------------------------------------------


def test_a_stream_is_numbered_on_and_never_ends() -> None:
    ledger = ShardTable(size=None, shard=512)
    found = [ledger.take("a") for _ in range(100)]
    assert found[99] == (0, 99, 99 * 512, 100 * 512)
    assert not ledger.over


def test_a_growing_stream_has_what_was_announced() -> None:
    ledger = ShardTable(size=None, shard=10, growing=True)
    assert ledger.take("a") is None
    ledger.grow(25, False)
    assert [ledger.take("a") for _ in range(3)] == [(0, 0, 0, 10), (0, 1, 10, 20), None]
    ledger.grow(25, True)
    assert ledger.take("a") == (0, 2, 20, 25)
    ledger.release("a")
    assert everything(ledger) == [(0, one) for one in range(25)]
    assert ledger.over


def test_a_growing_stream_goes_on_from_a_position() -> None:
    ledger = ShardTable(size=None, shard=10, growing=True)
    ledger.grow(95, True)
    for _ in range(4):
        ledger.take("a")
    ledger.done("a", 0, 1, 20)
    again = ShardTable(size=None, shard=10, growing=True)
    again.load(through_json(ledger.state()))
    assert everything(again) == [(0, one) for one in (*range(10), *range(20, 95))]
    assert again.over


@pytest.mark.parametrize(
    ("known", "said", "why"),
    [
        ((50, True), (60, False), "the stream ended at 50 samples, not 60"),
        ((50, True), (40, True), "the stream ended at 50 samples, not 40"),
        ((50, False), (40, True), "the stream cannot end at 40 samples: it has 50 already"),
        ((0, False), (-1, False), f"size: expected an integer from 0 to {(1 << 62) - 1}, not -1"),
    ],
)
def test_a_stream_does_not_change_its_word(
    known: tuple[int, bool], said: tuple[int, bool], why: str
) -> None:
    ledger = ShardTable(size=None, shard=10, growing=True)
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
def test_what_cannot_be_meant_is_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        ShardTable(**{"size": 100, "shard": 10, **spec})
