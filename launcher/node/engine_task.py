"""Who this node launcher is, as the engine that started it tells. Pure.

An engine starts the same command everywhere; which part of the job this one is, it says in
variables, which stand in the table of backends.
"""

from __future__ import annotations

from ..backends import BACKENDS
from ..common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ..backends.spec import TaskIdentity


OF_A_TASK = (
    *("OMPI_", "OPAL_", "PMIX_", "PMI_", "PRTE_", "PALS_", "HYDI_", "HYDRA_", "MPI_LOCAL"),
    *("MV2_COMM_WORLD_", "MVP_COMM_WORLD_", "MPIRUN_", "MPISPAWN_", "I_MPI_INFO_", "I_MPI_HYDRA_"),
)
"""Prefixes of variables that tell of the engine's task: here the node launcher, not a worker."""


def who(engine: str, environ: Mapping[str, str], hostname: str) -> str:
    """Return "INDEX@NAME,NAME": this task's number in the job, and the names of its host.

    Raises:
        UsageError: the engine did not say, or its variables disagree.
    """
    sources = BACKENDS[engine].engine
    assert sources is not None
    said = {name: environ[name] for name in sources.numbers if environ.get(name)}
    names = [environ[name] for name in sources.names if environ.get(name)]
    return f"{_agreed(engine, said, sources)}@{','.join(dict.fromkeys([*names, hostname]))}"


def _agreed(engine: str, said: Mapping[str, str], sources: TaskIdentity) -> int:
    if not said:
        listed = ", ".join(sources.numbers)
        raise UsageError(f"started by {engine}, but none of its variables is set here ({listed})")
    listed = ", ".join(f"{name}={value}" for name, value in said.items())
    if len(set(said.values())) > 1:
        raise UsageError(f"which part of the job is this? {engine} tells two numbers: {listed}")
    value = next(iter(said.values()))
    if not value.isascii() or not value.isdigit():
        raise UsageError(f"which part of the job is this? {engine} tells no number: {listed}")
    return int(value)


def left_out(environ: Iterable[str]) -> list[str]:
    """Return the variables that a worker must not see: a script would take them for its own rank.

    DeepSpeed, Lightning and accelerate read OMPI_COMM_WORLD_RANK, PMI_RANK and their like.
    """
    return [name for name in environ if name.startswith(OF_A_TASK)]
