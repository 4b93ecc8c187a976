"""Gives workers the variables that `jax.distributed.initialize` reads (jax 0.10.2).

The coordinator's address and the local devices have variables of jax's own. The number of processes
and their ids do not: jax takes them from its arguments, or from a launcher that it recognises by
its variables (`jax/_src/clusters`). The first one that it looks for is Open MPI's.
"""

from __future__ import annotations

from contextlib import contextmanager

from ...specs.environment import JAX, from_wire, to_wire
from ...specs.host import devices_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ...control.messages import NodeJob
    from ...node.workers.spawn import StartingWorkers, WorkerSpec
    from ...specs.host import Slot

OPEN_MPI = "OMPI_"


@contextmanager
def outfit(
    specs: Sequence[WorkerSpec], starting: StartingWorkers
) -> Iterator[Sequence[WorkerSpec]]:
    """Return a context of specs with jax's variables, except those that the user has set."""
    yield [one._replace(env=_with_variables(one.env, starting.task)) for one in specs]


def _with_variables(env: Mapping[bytes, bytes], task: NodeJob) -> dict[bytes, bytes]:
    known = {to_wire(name): to_wire(value) for name, value in env.items()}
    # A task of Open MPI's own has the right values already, and MPI_Init reads them, too.
    of_engine = known if task.rank_per_task else {}
    added = {
        from_wire(name): from_wire(value)
        for name, value in variables(known, task.slots or ()).items()
        if name not in task.env and not (name.startswith(OPEN_MPI) and name in of_engine)
    }
    return {name: value for name, value in env.items() if name != from_wire(JAX)} | added


def variables(env: Mapping[str, str], slots: Sequence[Slot]) -> dict[str, str]:
    """Return jax's variables for a worker.

    Args:
        env: the worker's variables.
        slots: the slots of its node; () if the node has counted them.
    """
    address, port = env["MASTER_ADDR"], env["MASTER_PORT"]
    family, host = ("tcp6", f"[{address}]") if ":" in address else ("tcp", address)
    return {
        "JAX_COORDINATOR_ADDRESS": f"{host}:{port}",
        "JAX_COORDINATOR_PORT": port,
        "JAX_NUM_PROCESSES": env["WORLD_SIZE"],
        "JAX_PROCESS_ID": env["RANK"],
        "JAX_LOCAL_DEVICE_IDS": _device_ids(env, slots),
        "OMPI_MCA_orte_hnp_uri": f"0.0;{family}://{host}:{port}",
        "OMPI_COMM_WORLD_SIZE": env["WORLD_SIZE"],
        "OMPI_COMM_WORLD_RANK": env["RANK"],
        "OMPI_COMM_WORLD_LOCAL_RANK": env["LOCAL_RANK"],
    }


def _device_ids(env: Mapping[str, str], slots: Sequence[Slot]) -> str:
    """Return the worker's own devices among those that it sees, by number.

    jax applies them to NVIDIA's and AMD's devices alone.
    """
    mask = env.get("CUDA_VISIBLE_DEVICES", "")
    seen = 0 if mask in {"", "-1"} else mask.count(",") + 1
    single = all(len(devices_of(slot)) == 1 for slot in slots)
    if not seen or (single and seen == int(env["LOCAL_WORLD_SIZE"])):
        return env["LOCAL_RANK"]
    return ",".join(map(str, range(seen)))
