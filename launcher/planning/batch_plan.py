"""DeepSpeed's elastic batch plan, computed anew: one batch that many world sizes can share out.

Candidates are multiples of each micro batch and of all of them together, by the largest highly
composite number that stays within the limit, as DeepSpeed's documentation describes; the candidate
that the most world sizes can share out is taken. Schema 0.1 counts world sizes in ranks. Schema
0.2 counts whole nodes, and gives a world size outside its plan a batch of its own. Pure.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt, lcm

from ..common.values import NamedTuple
from .batch_settings import Settings, settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HIGHLY_COMPOSITE = (
    1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
    10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760, 277200,
    332640, 498960, 554400, 665280, 720720,
)  # fmt: skip
"""Numbers with more divisors than any smaller one (OEIS A002182), as far as DeepSpeed goes."""


class Share(NamedTuple):
    """How one world size shares out a batch.

    Attributes:
        micro_batch: samples that a rank takes at once.
        accumulation: such steps until the model is updated.
        batch: samples of all ranks until then.
    """

    micro_batch: int
    accumulation: int
    batch: int


class BatchPlan(NamedTuple):
    """World sizes between which a job can change without another batch size.

    Attributes:
        batch: the batch that all of `valid` share out, in samples.
        valid: numbers of ranks, ascending.
    """

    settings: Settings
    batch: int
    valid: tuple[int, ...]

    def for_world(self, size: int) -> Share:
        """Return what each of so many ranks does.

        Raises:
            ValueError: they cannot share the work; the words name the nearest sizes that can.
        """
        batch = self.batch if size in self.valid else _alone(self, size)
        ranks = size // self.settings.model_parallel
        micro = next(one for one in self.settings.micro_batches if batch // ranks % one == 0)
        return Share(micro, batch // ranks // micro, batch)


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


def _counts(found: Settings) -> range:
    """Return the numbers of nodes among which a batch is chosen (of ranks, with schema 0.1).

    DeepSpeed rounds both limits down, and has none where no node is left. Its batch is the one to
    find, so this does the same, and world sizes beyond the limits are dropped afterwards.
    """
    least = found.min_gpus // found.gpus_per_node or 1
    limit = found.max_batch // found.replicas
    most = found.max_gpus // found.gpus_per_node or limit // found.micro_batches[-1]
    return range(least, most + 1)


def _candidates(found: Settings) -> set[int]:
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


def _alone(plan: BatchPlan, size: int) -> int:
    """Return the batch that schema 0.2 has for this world size alone."""
    objection = _objection(plan, size)
    if objection:
        near = _nearest(plan.valid, size)
        raise ValueError(f"world size {size} is not in the elastic plan: {objection}{near}")
    found = plan.settings
    steps = [micro * (size // found.model_parallel) for micro in found.micro_batches]
    batches = [found.max_batch // step * step for step in steps if step <= found.max_batch]
    return max(batches) if found.prefer_larger else min(batches)


def _objection(plan: BatchPlan, size: int) -> str:
    found = plan.settings
    if not found.min_gpus <= size <= found.max_gpus:
        return f"min_gpus is {found.min_gpus}, max_gpus is {found.max_gpus}"
    if found.schema == "0.1":
        return f"it cannot share out a batch of {plan.batch}"
    if size % found.model_parallel:
        return f"it is no multiple of model_parallel_size {found.model_parallel}"
    least = found.micro_batches[-1]
    if least * (size // found.model_parallel) > found.max_batch:
        return f"micro batches of {least} would exceed max_train_batch_size {found.max_batch}"
    return ""


def _nearest(valid: tuple[int, ...], size: int) -> str:
    at = bisect_right(valid, size)
    near = valid[max(at - 1, 0) : at + 1]
    return f"; the nearest in it: {' and '.join(map(str, near))}" if near else ""
