"""DeepSpeed's elastic batch plan, as computed: the numbers of ranks that one batch works for."""

from __future__ import annotations

from bisect import bisect_right

from ..common.records import NamedTuple


class BatchSettings(NamedTuple):
    """The input of a plan.

    Attributes:
        schema: the version of the block `elasticity`: "0.1" or "0.2".
        max_batch: the largest batch, in samples.
        micro_batches: possible micro batch sizes in samples, distinct, the largest first.
        min_gpus: the smallest world size, in ranks.
        max_gpus: the largest world size, in ranks.
        gpus_per_node: world sizes of the plan are multiples of this number of ranks; 1 with schema
            0.1.
        model_parallel: the number of ranks that share one copy of the model, and its samples.
        prefer_larger: of two batches with equally many world sizes, the larger one is used.
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
        """The number of copies of the model on a node."""
        return self.gpus_per_node // self.model_parallel


class BatchShare(NamedTuple):
    """The division of a batch among the ranks of one world size.

    Attributes:
        micro_batch: samples that a rank processes in one step.
        accumulation: gradient accumulation steps until the model is updated.
        batch: samples of all ranks until the model is updated.
    """

    micro_batch: int
    accumulation: int
    batch: int


class BatchPlan(NamedTuple):
    """World sizes among which a job can change without a change of its batch size.

    Attributes:
        settings: the settings from which the plan was computed.
        batch: the batch size of all world sizes in `valid`, in samples.
        valid: world sizes of the plan, in ranks, ascending.
    """

    settings: BatchSettings
    batch: int
    valid: tuple[int, ...]

    def for_world(self, size: int) -> BatchShare:
        """Return the division of the batch among `size` ranks.

        Raises:
            ValueError: the batch cannot be divided in this way; the message names the nearest valid
                sizes.
        """
        batch = self.batch if size in self.valid else _own_batch(self, size)
        ranks = size // self.settings.model_parallel
        micro = next(one for one in self.settings.micro_batches if batch // ranks % one == 0)
        return BatchShare(micro, batch // ranks // micro, batch)

    def misfit(self, size: int) -> str:
        """Return why this plan does not allow this number of ranks; "" if it does."""
        try:
            self.for_world(size)
        except ValueError as error:
            return f"--elastic_config: {error}"
        return ""


def _own_batch(plan: BatchPlan, size: int) -> int:
    """Return the batch of a world size outside the plan, which only schema 0.2 has."""
    problem = _problem(plan, size)
    if problem:
        near = _nearest(plan.valid, size)
        raise ValueError(f"world size {size} is not in the elastic plan: {problem}{near}")
    settings = plan.settings
    steps = [micro * (size // settings.model_parallel) for micro in settings.micro_batches]
    batches = [settings.max_batch // step * step for step in steps if step <= settings.max_batch]
    return max(batches) if settings.prefer_larger else min(batches)


def _problem(plan: BatchPlan, size: int) -> str:
    settings = plan.settings
    if not settings.min_gpus <= size <= settings.max_gpus:
        return f"min_gpus is {settings.min_gpus}, max_gpus is {settings.max_gpus}"
    if settings.schema == "0.1":
        return f"{size} ranks cannot divide a batch of {plan.batch}"
    if size % settings.model_parallel:
        return f"it is not a multiple of model_parallel_size {settings.model_parallel}"
    smallest = settings.micro_batches[-1]
    if smallest * (size // settings.model_parallel) > settings.max_batch:
        return f"micro batches of {smallest} would exceed max_train_batch_size {settings.max_batch}"
    return ""


def _nearest(valid: tuple[int, ...], size: int) -> str:
    at = bisect_right(valid, size)
    near = valid[max(at - 1, 0) : at + 1]
    return f"; nearest valid: {' and '.join(map(str, near))}" if near else ""
