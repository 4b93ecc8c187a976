"""Which numbers of workers share out one batch: DeepSpeed's elastic plan, once it is computed."""

from __future__ import annotations

from bisect import bisect_right

from ..common.values import NamedTuple


class BatchSettings(NamedTuple):
    """What the plan follows from.

    Attributes:
        schema: "0.1" or "0.2".
        max_batch: the largest batch, in samples.
        micro_batches: samples that a rank can take at once, the largest first, each once.
        min_gpus: the smallest world size.
        max_gpus: the largest world size.
        gpus_per_node: world sizes of the plan are multiples of it; 1 with schema 0.1.
        model_parallel: ranks that share one copy of the model, and so its samples.
        prefer_larger: of two batches with as many world sizes, the larger one is taken.
    """

    schema: str
    max_batch: int
    micro_batches: tuple[int, ...]
    min_gpus: int
    max_gpus: int
    gpus_per_node: int
    model_parallel: int
    prefer_larger: bool

    @property
    def replicas(self) -> int:
        """How many copies of the model a node holds."""
        return self.gpus_per_node // self.model_parallel


class BatchShare(NamedTuple):
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

    settings: BatchSettings
    batch: int
    valid: tuple[int, ...]

    def for_world(self, size: int) -> BatchShare:
        """Return what each of so many ranks does.

        Raises:
            ValueError: they cannot share the work; the words name the nearest sizes that can.
        """
        batch = self.batch if size in self.valid else _alone(self, size)
        ranks = size // self.settings.model_parallel
        micro = next(one for one in self.settings.micro_batches if batch // ranks % one == 0)
        return BatchShare(micro, batch // ranks // micro, batch)


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
