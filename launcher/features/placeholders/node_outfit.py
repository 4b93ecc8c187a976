"""Fills in the placeholders of workers as they start."""

from __future__ import annotations

from contextlib import contextmanager

from ...common.errors import UsageError
from ...resources import world_info
from ...specs.environment import from_wire, is_mask, to_wire
from .names import filled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...node.workers.spawn import StartingWorkers, WorkerSpec

OF_VARIABLES = {
    "rank": "RANK",
    "local_rank": "LOCAL_RANK",
    "world_size": "WORLD_SIZE",
    "node_rank": "NODE_RANK",
    "nnodes": "GROUP_WORLD_SIZE",
    "master_addr": "MASTER_ADDR",
    "master_port": "MASTER_PORT",
}
"""Placeholders with the values of variables that dsrun sets for each worker."""


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Return a context of specs whose words and variables are filled in."""
    yield [_filled(one, starting) for one in specs]


def _filled(spec: WorkerSpec, starting: StartingWorkers) -> WorkerSpec:
    task = starting.task
    env = {to_wire(name): to_wire(value) for name, value in spec.env.items()}
    values = values_of(env, task.host)
    first, rest = task.workers.ends
    added = [from_wire(word) for word in (first if values["node_rank"] == "0" else rest)]
    own = {name: env[name] for name in task.env if name in env and "{" in env[name]}
    return spec._replace(
        argv=[_bytes(word, values) for word in (*spec.argv, *added)],
        env={**spec.env, **{from_wire(n): from_wire(filled(v, values)) for n, v in own.items()}},
    )


def values_of(env: Mapping[str, str], host: str) -> dict[str, str]:
    """Return the values of the placeholders of a worker, given its variables and host."""
    values = {name: env.get(variable, "") for name, variable in OF_VARIABLES.items()}
    values["host"] = host
    values["hosts"] = ",".join(_hosts(env.get("DSRUN_WORLD_INFO", "")) or [host])
    values["devices"] = next((value for name, value in env.items() if is_mask(name)), "")
    return values


def _hosts(world: str) -> list[str]:
    try:
        return [*world_info.decode(world)] if world else []
    except UsageError:
        return []


def _bytes(word: bytes, values: Mapping[str, str]) -> bytes:
    return from_wire(filled(to_wire(word), values)) if b"{" in word else word
