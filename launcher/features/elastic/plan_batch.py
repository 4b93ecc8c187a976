"""DeepSpeed's elastic batch plan, and the config file that asks for it."""

from __future__ import annotations

import json
from bisect import bisect_right
from math import isqrt, lcm

from ...common import files
from ...common.errors import UsageError, reason
from ...common.text import read_json
from ...specs.batch_plan import BatchPlan
from .plan_batch_settings import settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...specs.batch_plan import BatchPlan, BatchSettings


def read(path: str, where: str) -> BatchPlan:
    """Return the batch plan of a DeepSpeed config file.

    Args:
        path: the file, plain JSON.
        where: the option that names it, for messages.

    Raises:
        UsageError: the file cannot be read, is not JSON, or has no valid batch plan.
    """
    try:
        return plan(_parsed(_bytes(path, where), path))
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _bytes(path: str, where: str) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise UsageError(f"{where} {path}: {reason(error)}") from None


def _parsed(data: bytes, path: str) -> object:
    try:
        return read_json(data.decode("utf-8-sig"), _once)
    except json.JSONDecodeError as error:
        where = f"{path}:{error.lineno}: column {error.colno}"
        words = error.msg[:1].lower() + error.msg[1:]
        raise UsageError(f"{where}: not JSON: {words}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; a repeated key is an error, as in DeepSpeed."""
    members = dict(pairs)
    if len(members) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {repeated!r:.40} is repeated in an object")
    return members


def fitting(path: str, size: int | None) -> BatchPlan:
    """Return the elastic batch plan of the file of --elastic_config.

    Raises:
        UsageError: the file cannot be used, or `size` workers (if known) do not fit the plan.
    """
    batches = read(path, "--elastic_config")
    try:
        if size is not None:
            batches.for_world(size)
    except ValueError as error:
        raise UsageError(f"--elastic_config {path}: {error}") from None
    return batches


HIGHLY_COMPOSITE = (
    1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560,
    10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760, 277200,
    332640, 498960, 554400, 665280, 720720,
)  # fmt: skip
"""Numbers with more divisors than any smaller one (OEIS A002182), up to DeepSpeed's limit."""


def plan(config: object) -> BatchPlan:
    """Return the batch plan of a DeepSpeed config.

    Raises:
        ValueError: its block `elasticity` is missing or invalid, or allows no world size.
    """
    given = settings(config)
    counts = _counts(given)
    sizes = {batch: _divided_by(batch, given.micro_batches, counts) for batch in _candidates(given)}
    sign = 1 if given.prefer_larger else -1
    best = max(sizes, key=lambda batch: (len(sizes[batch]), sign * batch))
    ranks = sorted(count * given.gpus_per_node for count in sizes[best])
    valid = tuple(size for size in ranks if given.min_gpus <= size <= given.max_gpus)
    if not valid and given.schema == "0.1":
        raise ValueError(
            f"elasticity: {given.min_gpus} to {given.max_gpus} ranks cannot divide any batch of at"
            f" most {given.max_batch} samples"
        )
    return BatchPlan(given, best * given.replicas, valid)


def _counts(given: BatchSettings) -> range:
    """Return the numbers of nodes for which a batch is chosen (of ranks, with schema 0.1).

    DeepSpeed rounds both limits down, and drops a limit that becomes 0. So does this function, to
    find the batch that DeepSpeed finds; world sizes beyond the limits are removed afterwards.
    """
    least = given.min_gpus // given.gpus_per_node or 1
    limit = given.max_batch // given.replicas
    most = given.max_gpus // given.gpus_per_node or limit // given.micro_batches[-1]
    return range(least, most + 1)


def _candidates(given: BatchSettings) -> set[int]:
    """Return candidates for the batch, in samples of one model replica on every node."""
    limit = given.max_batch // given.replicas
    bases = {*given.micro_batches, lcm(*given.micro_batches)}
    return {base * _scale(limit // base) for base in bases if base <= limit}


def _scale(most: int) -> int:
    return HIGHLY_COMPOSITE[bisect_right(HIGHLY_COMPOSITE, most) - 1]


def _divided_by(batch: int, micro_batches: Iterable[int], counts: range) -> set[int]:
    """Return the counts that divide a batch into equal numbers of micro batches of one size."""
    steps = [batch // micro for micro in micro_batches if batch % micro == 0]
    return {count for one in steps for count in _divisors(one) if count in counts}


def _divisors(number: int) -> set[int]:
    low = [one for one in range(1, isqrt(number) + 1) if number % one == 0]
    return {*low, *(number // one for one in low)}
