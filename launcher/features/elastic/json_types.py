"""The JSON types of `dsrun-elastic --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

from ...common.json_types import Positive, one_of
from .plan_batch_settings import SCHEMAS


class ShareJson(TypedDict):
    """The division of a batch among the ranks of one world size, with DeepSpeed's names.

    Attributes:
        world_size: number of ranks.
        train_micro_batch_size_per_gpu: samples that a rank processes in one step.
        gradient_accumulation_steps: steps until the model is updated.
        train_batch_size: samples of all ranks until the model is updated.
    """

    world_size: Positive
    train_micro_batch_size_per_gpu: Positive
    gradient_accumulation_steps: Positive
    train_batch_size: Positive


class ElasticPlan(TypedDict):
    """The elastic batch plan of a DeepSpeed config, as one JSON object on standard output.

    Attributes:
        version: version of the block `elasticity`.
        valid: world sizes of the plan, in ranks, ascending; with version 0.2 it may be empty.
        shares: the division of a batch among the ranks, one entry for each world size in `valid`,
            or for the one of --world_size.
    """

    version: Annotated[str, one_of(SCHEMAS.values())]
    valid: Sequence[Positive]
    shares: list[ShareJson]
