"""Check the block `elasticity` of a DeepSpeed config. Pure.

Keys and defaults are from DeepSpeed's documentation ("Elastic Training Config" in the config
reference), up to DeepSpeed 0.19.7; 0.19.8 has removed the block.
"""

from __future__ import annotations

from ...specs.batch_plan import BatchSettings

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
"""Keys with whole numbers of 1 or more, and their defaults; None if the key is required."""

OTHERS = {
    "enabled", "micro_batch_sizes", "prefer_larger_batch", "version",
    "min_time", "ignore_non_elastic_batch_info",
}  # fmt: skip
"""Other keys; the last two do not affect the plan."""

SCHEMAS = {0.1: "0.1", 0.2: "0.2"}

TOO_MUCH = 10**9
"""A limit beyond all real numbers of ranks or samples; DeepSpeed's search ends far below."""


def settings(config: object) -> BatchSettings:
    """Return the elasticity settings of a DeepSpeed config.

    Raises:
        ValueError: settings are missing or invalid; the message names the key.
    """
    block = _block(config)
    numbers = {name: _whole(block.get(name, usual), name) for name, usual in NUMBERS.items()}
    schema = _schema(block.get("version", 0.2))
    given = BatchSettings(
        schema=schema,
        max_batch=numbers["max_train_batch_size"],
        micro_batches=_micro_batches(block),
        min_gpus=numbers["min_gpus"],
        max_gpus=numbers["max_gpus"],
        gpus_per_node=numbers["num_gpus_per_node"] if schema == "0.2" else 1,
        model_parallel=numbers["model_parallel_size"],
        prefer_larger=_switch(block.get("prefer_larger_batch", True), "prefer_larger_batch"),
    )
    _check(given)
    return given


def _block(config: object) -> Mapping[str, object]:
    block = config.get("elasticity") if isinstance(config, dict) else None
    if not isinstance(block, dict):
        raise ValueError('expected a block "elasticity": {...}')
    for name in block:
        if name not in {*NUMBERS, *OTHERS}:
            raise ValueError(f"elasticity: unknown key {name!r:.40}{_nearest(name)}")
    if block.get("enabled") is not True:
        raise ValueError("elasticity.enabled: expected true; otherwise the block has no effect")
    return block


def _nearest(name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, [*NUMBERS, *OTHERS], 1)
    return f" (did you mean {close[0]}?)" if close else ""


def _whole(value: object, name: str) -> int:
    """Return a whole number, which JSON may also write as 2e3."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is None:
        raise ValueError(f"elasticity.{name}: is missing")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < TOO_MUCH:
        raise ValueError(f"elasticity.{name}: expected a whole number above 0, not {value!r:.40}")
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


def _check(given: BatchSettings) -> None:
    least, most = given.min_gpus, given.max_gpus
    if least > most:
        raise ValueError(f"elasticity: min_gpus {least} is more than max_gpus {most}")
    parallel, ranks = given.model_parallel, given.gpus_per_node
    if parallel > 1 and given.schema == "0.1":
        raise ValueError(f"elasticity: model_parallel_size {parallel}: only with version 0.2")
    if ranks % parallel:
        raise ValueError(
            f"elasticity: num_gpus_per_node {ranks} is not a multiple of"
            f" model_parallel_size {parallel}"
        )
    largest, limit = given.micro_batches[0], given.max_batch
    if largest * given.replicas > limit:
        times = f" on each of a node's {given.replicas} replicas" if given.replicas > 1 else ""
        raise ValueError(
            f"elasticity: a micro batch of {largest}{times} is more than"
            f" max_train_batch_size {limit}"
        )
