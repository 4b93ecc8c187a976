"""The block `elasticity` of a DeepSpeed config, checked. Pure.

Its keys and defaults are those that DeepSpeed's documentation names ("Elastic Training Config" of
its config reference), up to DeepSpeed 0.19.7; 0.19.8 has dropped the block.
"""

from __future__ import annotations

from ..specs.batch_plan import BatchSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NUMBERS = {
    "max_train_batch_size": None,
    "min_gpus": 1,
    "max_gpus": 10000,
    "num_gpus_per_node": 1,
    "model_parallel_size": 1,
}
"""Whole numbers of 1 or more, with their defaults; None: it must be there."""

OTHERS = {
    "enabled", "micro_batch_sizes", "prefer_larger_batch", "version",
    "min_time", "ignore_non_elastic_batch_info",
}  # fmt: skip
"""Keys that are no such numbers; the last two have no say in the plan."""

SCHEMAS = {0.1: "0.1", 0.2: "0.2"}

TOO_MUCH = 10**9
"""No number of ranks or samples comes near; DeepSpeed's own search ends far below."""


def settings(config: object) -> BatchSettings:
    """Return what a DeepSpeed config says of elasticity.

    Raises:
        ValueError: it says nothing, or what cannot be meant; the words name the key.
    """
    block = _block(config)
    numbers = {name: _whole(block.get(name, usual), name) for name, usual in NUMBERS.items()}
    schema = _schema(block.get("version", 0.2))
    found = BatchSettings(
        schema=schema,
        max_batch=numbers["max_train_batch_size"],
        micro_batches=_micro_batches(block),
        min_gpus=numbers["min_gpus"],
        max_gpus=numbers["max_gpus"],
        gpus_per_node=numbers["num_gpus_per_node"] if schema == "0.2" else 1,
        model_parallel=numbers["model_parallel_size"],
        prefer_larger=_switch(block.get("prefer_larger_batch", True), "prefer_larger_batch"),
    )
    _check(found)
    return found


def _block(config: object) -> Mapping[str, object]:
    block = config.get("elasticity") if isinstance(config, dict) else None
    if not isinstance(block, dict):
        raise ValueError('no "elasticity": {...} in it')
    for name in block:
        if name not in {*NUMBERS, *OTHERS}:
            raise ValueError(f"elasticity: no such key: {name!r:.40}{_nearest(name)}")
    if block.get("enabled") is not True:
        raise ValueError("elasticity.enabled: expected true; as it is, the block is not in use")
    return block


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, [*NUMBERS, *OTHERS], 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _whole(value: object, name: str) -> int:
    """Return a whole number, which JSON may write as 2e3, too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        raise ValueError(f"elasticity.{name}: is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < TOO_MUCH:
        raise ValueError(f"elasticity.{name}: expected a whole number from 1 on, not {value!r:.40}")
    return value


def _micro_batches(block: Mapping[str, object]) -> tuple[int, ...]:
    name = "micro_batch_sizes"
    sizes = block.get(name)
    if not isinstance(sizes, list) or not sizes:
        raise ValueError(f"elasticity.{name}: expected a list such as [2, 4, 6]")
    return tuple(sorted({_whole(size, name) for size in sizes}, reverse=True))


def _switch(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"elasticity.{name}: expected true or false, not {value!r:.40}")
    return value


def _schema(value: object) -> str:
    try:
        return SCHEMAS[float(str(value))]
    except (KeyError, ValueError):
        raise ValueError(f"elasticity.version: expected 0.1 or 0.2, not {value!r:.40}") from None


def _check(found: BatchSettings) -> None:
    least, most = found.min_gpus, found.max_gpus
    if least > most:
        raise ValueError(f"elasticity: min_gpus {least} is more than max_gpus {most}")
    parallel, ranks = found.model_parallel, found.gpus_per_node
    if parallel > 1 and found.schema == "0.1":
        raise ValueError(f"elasticity: model_parallel_size {parallel}: only with version 0.2")
    if ranks % parallel:
        raise ValueError(
            f"elasticity: num_gpus_per_node {ranks} is no multiple of"
            f" model_parallel_size {parallel}"
        )
    largest, limit = found.micro_batches[0], found.max_batch
    if largest * found.replicas > limit:
        times = f" on each of a node's {found.replicas} replicas" if found.replicas > 1 else ""
        raise ValueError(
            f"elasticity: a micro batch of {largest}{times} is more than"
            f" max_train_batch_size {limit}"
        )
