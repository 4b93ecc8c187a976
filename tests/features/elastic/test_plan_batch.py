"""DeepSpeed's elastic batch plan: the same answers, and none that cannot be carried out."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from itertools import accumulate
from math import gcd
from pathlib import Path
from typing import Any

import pytest

from dsrun.launcher.features.elastic.plan_batch import HIGHLY_COMPOSITE, plan
from dsrun.launcher.specs.batch_plan import BatchPlan, BatchShare

DOCUMENTED = {"max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}
"""The config in DeepSpeed's documentation."""

UNEVEN = {
    "max_train_batch_size": 10000, "micro_batch_sizes": [8, 12, 16, 17],
    "min_gpus": 32, "max_gpus": 1500, "version": 0.1,
}  # fmt: skip
NODES = {
    "max_train_batch_size": 4000, "micro_batch_sizes": [2, 4, 7],
    "num_gpus_per_node": 8, "max_gpus": 64,
}  # fmt: skip


def made(block: dict[str, Any], **more: Any) -> BatchPlan:
    """The plan of a config with this block, and these keys besides."""
    return plan({"elasticity": {"enabled": True, **block, **more}})


def refused(block: dict[str, Any], **more: Any) -> str:
    """The words in which the block is refused."""
    with pytest.raises(ValueError, match=r".") as caught:
        made(block, **more)
    return str(caught.value)


def no_share(of: BatchPlan, size: int) -> str:
    """The words in which so many ranks are refused."""
    with pytest.raises(ValueError, match=r": ") as caught:
        of.for_world(size)
    return str(caught.value).removeprefix(f"world size {size} is not in the elastic plan: ")


# -- the plan -----------------------------------------------------------------------------------

# What DeepSpeed 0.19.7 answers.
PLANS = [
    ({**DOCUMENTED, "version": 0.1}, 1680, 32, (1, 840)),
    (UNEVEN, 9792, 23, (32, 1224)),
    ({**UNEVEN, "prefer_larger_batch": False}, 9792, 23, (32, 1224)),
    ({**DOCUMENTED, "version": 0.2, "max_gpus": 8}, 1680, 8, (1, 8)),
    (NODES, 3840, 7, (8, 64)),
]


@pytest.mark.parametrize(("block", "batch", "sizes", "ends"), PLANS)
def test_the_plan_is_deepspeeds(
    block: dict[str, Any], batch: int, sizes: int, ends: tuple[int, int]
) -> None:
    found = made(block)
    assert (found.batch, len(found.valid)) == (batch, sizes)
    assert (found.valid[0], found.valid[-1]) == ends


def test_the_smaller_of_two_batches_that_serve_as_well() -> None:
    block = {"max_train_batch_size": 100, "micro_batch_sizes": [4, 5], "max_gpus": 4}
    larger, smaller = (made(block, prefer_larger_batch=one) for one in (True, False))
    assert larger.valid == smaller.valid == (1, 2, 3, 4)
    assert (larger.batch, smaller.batch) == (96, 60)


def test_highly_composite_numbers_have_more_divisors_than_all_before() -> None:
    limit = 60000
    divisors = [0] * (limit + 1)
    for step in range(1, limit + 1):
        for number in range(step, limit + 1, step):
            divisors[number] += 1
    records = list(accumulate(divisors, max))
    risen = [at for at in range(1, limit + 1) if records[at] > records[at - 1]]
    assert [one for one in HIGHLY_COMPOSITE if one <= limit] == risen


@pytest.mark.parametrize("version", [0.1, "0.1", 0.2, "0.2"])
def test_both_schemas_by_number_or_text(version: object) -> None:
    assert made(DOCUMENTED, version=version).settings.schema == str(version)


def test_whole_numbers_may_be_written_as_json_writes_large_ones() -> None:
    assert made({**DOCUMENTED, "max_train_batch_size": 2e3}) == made(DOCUMENTED)


# -- the share of a world size ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "size", "share"),
    [
        (UNEVEN, 32, BatchShare(17, 18, 9792)),
        (UNEVEN, 306, BatchShare(16, 2, 9792)),
        (UNEVEN, 1224, BatchShare(8, 1, 9792)),
        (NODES, 48, BatchShare(4, 20, 3840)),
        # Outside the plan of nodes: schema 0.2 finds a batch for this size alone.
        (NODES, 5, BatchShare(4, 200, 4000)),
        (NODES, 63, BatchShare(7, 9, 3969)),
    ],
)
def test_the_share_is_deepspeeds(block: dict[str, Any], size: int, share: BatchShare) -> None:
    assert made(block).for_world(size) == share


@pytest.mark.parametrize(
    ("block", "size", "words"),
    [
        (UNEVEN, 50, "50 ranks cannot divide a batch of 9792; nearest valid: 48 and 51"),
        (UNEVEN, 31, "min_gpus is 32, max_gpus is 1500; nearest valid: 32"),
        (UNEVEN, 1400, "1400 ranks cannot divide a batch of 9792; nearest valid: 1224"),
        (UNEVEN, 0, "min_gpus is 32, max_gpus is 1500; nearest valid: 32"),
        (NODES, 65, "min_gpus is 1, max_gpus is 64; nearest valid: 64"),
        (
            {**NODES, "model_parallel_size": 4},
            22,
            "it is not a multiple of model_parallel_size 4; nearest valid: 16 and 24",
        ),
        (
            {"max_train_batch_size": 20, "micro_batch_sizes": [4]},
            6,
            "micro batches of 4 would exceed max_train_batch_size 20; nearest valid: 4",
        ),
    ],
)
def test_a_size_that_does_not_fit_is_told_the_nearest(
    block: dict[str, Any], size: int, words: str
) -> None:
    assert no_share(made(block), size) == words


def test_shares_add_up_whatever_the_config() -> None:
    chance = random.Random(5)
    tried = 0
    for block in blocks(chance, 500):
        found = made(block)
        parallel = found.settings.model_parallel
        for size in [*found.valid, *range(parallel, 60 * parallel, 7 * parallel)]:
            try:
                share = found.for_world(size)
            except ValueError:
                assert size not in found.valid
                continue
            tried += 1
            assert share.batch == share.micro_batch * share.accumulation * size // parallel
            assert 0 < share.batch <= block["max_train_batch_size"]
            assert share.micro_batch in block["micro_batch_sizes"]
            assert block["min_gpus"] <= size <= block["max_gpus"]
    assert tried > 1000


def blocks(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """So many random blocks that have a plan."""
    found: list[dict[str, Any]] = []
    while len(found) < count:
        schema = chance.choice([0.1, 0.2])
        node = chance.choice([1, 2, 3, 6, 8]) if schema == 0.2 else 1
        block = {
            "enabled": True,
            "version": schema,
            "max_train_batch_size": chance.randint(1, chance.choice([200, 5000, 100000])),
            "micro_batch_sizes": [chance.randint(1, 32) for _ in range(chance.randint(1, 5))],
            "min_gpus": chance.randint(1, 20),
            "max_gpus": chance.choice([20, 40, 1000]),
            "prefer_larger_batch": chance.random() < 0.6,
            "num_gpus_per_node": node,
            "model_parallel_size": gcd(node, chance.choice([1, 1, 2, 3])),
        }
        try:
            made(block)
        except ValueError:
            continue
        found.append(block)
    return found


# -- where DeepSpeed's answer is of no use ------------------------------------------------------


def test_world_sizes_are_ranks_where_several_share_a_model() -> None:
    found = made(NODES, model_parallel_size=4)
    assert all(size % 8 == 0 for size in found.valid)
    share = found.for_world(24)
    assert share.batch == share.micro_batch * share.accumulation * 6 == found.batch


def test_whole_nodes_stay_within_the_limits() -> None:
    assert made(NODES).valid == (8, 16, 24, 32, 40, 48, 64)
    assert made(NODES, min_gpus=12, max_gpus=50).valid == (16, 24, 32, 40, 48)


def test_fewer_ranks_than_a_node_has_are_not_rounded_up_to_any_number() -> None:
    found = made(NODES, max_gpus=4)
    assert found.valid == ()
    assert found.for_world(4).batch == 4000
    assert no_share(found, 8) == "min_gpus is 1, max_gpus is 4"


def test_a_micro_batch_that_is_too_large_for_so_many_ranks_counts_for_nothing() -> None:
    block = {"max_train_batch_size": 100, "micro_batch_sizes": [2, 16], "max_gpus": 50}
    assert made(block, prefer_larger_batch=False).for_world(7).batch == 98


def test_ranks_are_counted_in_whole_numbers() -> None:
    # 1 / 49 * 49 is less than 1 in floating point.
    assert made(DOCUMENTED, num_gpus_per_node=49).for_world(1) == BatchShare(4, 500, 2000)


# -- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("config", [{}, [], None, 3, {"elasticity": None}, {"elasticity": []}])
def test_a_config_without_the_block(config: object) -> None:
    with pytest.raises(ValueError, match='expected a block "elasticity"'):
        plan(config)


@pytest.mark.parametrize("enabled", [False, None, "yes", 0])
def test_a_block_that_is_not_in_use(enabled: object) -> None:
    assert refused(DOCUMENTED, enabled=enabled).startswith("elasticity.enabled: expected true")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"max_gpu": 4}, "elasticity: unknown key 'max_gpu' (did you mean max_gpus?)"),
        ({"max_train_batch_size": None}, "elasticity.max_train_batch_size: is missing"),
        ({"max_train_batch_size": 0}, "max_train_batch_size: expected a whole number above 0"),
        ({"max_train_batch_size": 10**9}, "max_train_batch_size: expected a whole number"),
        ({"max_train_batch_size": 2.5}, "max_train_batch_size: expected a whole number"),
        ({"max_train_batch_size": float("inf")}, "expected a whole number above 0, not inf"),
        ({"min_gpus": "4"}, "elasticity.min_gpus: expected a whole number above 0, not '4'"),
        ({"min_gpus": True}, "elasticity.min_gpus: expected a whole number above 0, not True"),
        ({"min_gpus": 5, "max_gpus": 4}, "elasticity: min_gpus 5 is more than max_gpus 4"),
        ({"micro_batch_sizes": []}, "micro_batch_sizes: expected a list such as [2, 4, 6]"),
        ({"micro_batch_sizes": 4}, "micro_batch_sizes: expected a list such as [2, 4, 6]"),
        ({"micro_batch_sizes": [2, -4]}, "micro_batch_sizes: expected a whole number above 0"),
        ({"micro_batch_sizes": [4096]}, "a micro batch of 4096 is more than max_train_batch_size"),
        ({"prefer_larger_batch": 1}, "prefer_larger_batch: expected true or false, not 1"),
        ({"version": 0.3}, "elasticity.version: expected 0.1 or 0.2, not 0.3"),
        ({"version": [1]}, "elasticity.version: expected 0.1 or 0.2, not [1]"),
        ({"version": 0.1, "model_parallel_size": 2}, "only with version 0.2"),
        (
            {"num_gpus_per_node": 8, "model_parallel_size": 3},
            "8 is not a multiple of model_parallel",
        ),
        (
            {"num_gpus_per_node": 8, "micro_batch_sizes": [300]},
            "a micro batch of 300 on each of a node's 8 replicas is more than max_train_batch_size",
        ),
        (
            {"version": 0.1, "min_gpus": 7, "max_gpus": 7, "micro_batch_sizes": [11]},
            "7 to 7 ranks cannot divide any batch of at most 2000",
        ),
    ],
)
def test_what_cannot_be_meant(more: dict[str, Any], words: str) -> None:
    assert words in refused(DOCUMENTED, **more)


# -- beside DeepSpeed ---------------------------------------------------------------------------

ASK = """
import json, sys
from deepspeed.elasticity import compute_elastic_config
for block, size in json.load(sys.stdin):
    try:
        batch, valid, micro = compute_elastic_config({"elasticity": block}, "0.19.7", size)
        print("SAID", json.dumps([int(batch), [int(one) for one in valid], int(micro)]))
    except Exception as error:
        print("SAID", json.dumps(None))
"""


@pytest.mark.peer
def test_answers_are_deepspeeds_over_random_configs() -> None:
    """Needs DeepSpeed 0.19.7 (0.19.8 has no elasticity), in this Python or DEEPSPEED_PYTHON."""
    chance = random.Random(11)
    asked = [(one, chance.randint(1, 60)) for one in blocks(chance, 2000)]
    asked = [(one, size) for one, size in asked if one["model_parallel_size"] == 1]
    python = os.environ.get("DEEPSPEED_PYTHON", sys.executable)
    said = subprocess.run(
        [python, "-c", ASK], input=json.dumps(asked), capture_output=True, text=True, check=True,
        cwd=Path("/"),
    )  # fmt: skip
    answers = [json.loads(one) for one in re.findall(r"^SAID (.*)$", said.stdout, re.M)]
    assert len(answers) == len(asked)
    agreed = [agrees(*pair, answer) for pair, answer in zip(asked, answers, strict=True)]
    assert sum(agreed) > 300


def agrees(block: dict[str, Any], size: int, answer: list[Any] | None) -> bool:
    """Whether both give so many ranks the same share; False where they are refused here."""
    found = made(block)
    try:
        share = found.for_world(size)
    except ValueError:
        outside = not block["min_gpus"] <= size <= block["max_gpus"]
        assert answer is None or answer[0] == 0 or outside, (block, size)
        return False
    if answer is None or answer[0] == 0:
        # It has given a micro batch that is too large for so many ranks a batch of 0.
        assert not block["prefer_larger_batch"], (block, size)
        return False
    valid = [one for one in answer[1] if block["min_gpus"] <= one <= block["max_gpus"]]
    assert answer[::2] == [share.batch, share.micro_batch], (block, size)
    assert valid == (list(found.valid) if size in found.valid else [size]), (block, size)
    return True
