"""DeepSpeed's elastic batch plan, computed anew: one batch that many world sizes can share out.

Candidates are multiples of each micro batch and of all of them together, by the largest highly
composite number that stays within the limit, as DeepSpeed's documentation describes; the candidate
that the most world sizes can share out is taken. Schema 0.1 counts world sizes in ranks. Schema
0.2 counts whole nodes, and gives a world size outside its plan a batch of its own. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt, lcm

from ..specs.batch_plan import BatchPlan
from .batch_settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..specs.batch_plan import BatchSettings

HIGHLY_COMPOSITE = (
    1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
    10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760, 277200,
    332640, 498960, 554400, 665280, 720720,
)  # fmt: skip
"""Numbers with more divisors than any smaller one (OEIS A002182), as far as DeepSpeed goes."""


def plan(config: object) -> BatchPlan:
    """Return the batch plan of a DeepSpeed config.

    Raises:
        ValueError: its block `elasticity` is not there, cannot be meant, or leaves no world size.
    """
    found = settings(config)
    counts = _counts(found)
    sizes = {batch: _shared_by(batch, found.micro_batches, counts) for batch in _candidates(found)}
    sign = 1 if found.prefer_larger else -1
    best = max(sizes, key=lambda batch: (len(sizes[batch]), sign * batch))
    ranks = sorted(count * found.gpus_per_node for count in sizes[best])
    valid = tuple(size for size in ranks if found.min_gpus <= size <= found.max_gpus)
    if not valid and found.schema == "0.1":
        raise ValueError(
            f"elasticity: no batch of at most {found.max_batch} can be shared out by"
            f" {found.min_gpus} to {found.max_gpus} ranks"
        )
    return BatchPlan(found, best * found.replicas, valid)


def _counts(found: BatchSettings) -> range:
    """Return the numbers of nodes among which a batch is chosen (of ranks, with schema 0.1).

    DeepSpeed rounds both limits down, and has none where no node is left. Its batch is the one to
    find, so this does the same, and world sizes beyond the limits are dropped afterwards.
    """
    least = found.min_gpus // found.gpus_per_node or 1
    limit = found.max_batch // found.replicas
    most = found.max_gpus // found.gpus_per_node or limit // found.micro_batches[-1]
    return range(least, most + 1)


def _candidates(found: BatchSettings) -> set[int]:
    """Return batches worth trying, in samples of one model replica on every node."""
    limit = found.max_batch // found.replicas
    bases = {*found.micro_batches, lcm(*found.micro_batches)}
    return {base * _scale(limit // base) for base in bases if base <= limit}


def _scale(most: int) -> int:
    return HIGHLY_COMPOSITE[bisect_right(HIGHLY_COMPOSITE, most) - 1]


def _shared_by(batch: int, micro_batches: Iterable[int], counts: range) -> set[int]:
    """Return which of these counts can share out a batch in micro batches of one size."""
    steps = [batch // micro for micro in micro_batches if batch % micro == 0]
    return {count for one in steps for count in _divisors(one) if count in counts}


def _divisors(number: int) -> set[int]:
    low = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return {*low, *(number // one for one in low)}
