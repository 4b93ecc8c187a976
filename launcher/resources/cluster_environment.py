"""Which node this is, where the same command already runs on every node and something says so.

The first row of `_SOURCES` that speaks wins. What must hold together is checked together: these
variables outlive what they tell of, in shells and in jobs that are submitted from jobs.

* torchrun's own variables, which Kubeflow's Trainer and its older PyTorchJob set in every pod.
* A task of an MPI launcher; before Slurm, as a launcher that starts its daemons by srun leaves
  their step's variables to its tasks.
* A task of srun. Slurm gives a step's variables to whatever a task starts, and to the jobs that it
  submits. A shell in a terminal (`srun --pty`, Jupyter's) is no task: whoever types there has the
  whole allocation in mind. SLURM_PTY_PORT alone does not tell, as the tasks of an srun in such a
  shell inherit it; nor does a terminal alone, as `unbuffer` makes one for each task.
* A pod of an indexed Kubernetes Job, whose host name ends in its index.
"""

from __future__ import annotations

import os

from ..common.errors import UsageError
from ..common.values import NamedTuple
from ..specs.host import MAX_SLOTS
from .counts import bad, is_count, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .mpi import TaskVariables

    Environ = Mapping[str, str]

WORDS_FOR_ALL = {"auto", "gpu", "cpu", "xpu"}
"""torchrun's words for --nproc_per_node that mean "as many as the node has"."""

_MAX_PORT = 65535
# Below the ports that Linux gives away by itself (32768 on, ip(7)).
_FIRST_PORT, _PORTS = 20000, 12000


class ClusterEnvironment(NamedTuple):
    """One node's place in a job whose command runs on every node.

    Attributes:
        node_rank: Which node this is, from 0.
        nodes: How many there are; None if nothing says so.
        master_addr: Where node 0 is; None if nothing says so.
        master_port: The port for the workers; None if nothing says so.
        slots: How many workers to start here; None for as many as there are devices.
        words: For the user: where this is from.
        hosts: Names of all nodes in order of rank; () if nothing says so.
        control_port: A port on node 0 that other jobs there do not use; None for the usual one.
        task: A launcher's own word for this one process; else it is a setting of somebody's.
    """

    node_rank: int
    nodes: int | None
    master_addr: str | None
    master_port: int | None
    slots: int | None
    words: str
    hosts: tuple[str, ...] = ()
    control_port: int | None = None
    task: bool = True


class _Here(NamedTuple):
    environ: Environ
    hostname: str
    terminal: bool


def find(environ: Environ, hostname: str, *, terminal: bool) -> ClusterEnvironment | None:
    """Return which node this is, or None if nothing says so.

    Args:
        environ: The environment of this process.
        hostname: This machine's name, in full where it has a domain.
        terminal: Whether this process has a terminal, as `has_terminal` tells.

    Raises:
        UsageError: A variable cannot be read, two disagree, or there are several tasks a node.
    """
    here = _Here(environ, hostname, terminal)
    return next(filter(None, (source(here) for source in _SOURCES)), None)


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal, wherever its streams go."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _torchrun(here: _Here) -> ClusterEnvironment | None:
    environ = here.environ
    variable = _rank_variable(environ)
    rank = number(environ, variable)
    if rank is None:
        return None
    nodes = _nodes(environ)
    _check_rank(variable, rank, nodes)
    address, port = _master(environ)
    words = f"torchrun's variables ({variable})"
    return ClusterEnvironment(rank, nodes, address, port, _workers(environ), words, task=False)


def _rank_variable(environ: Environ) -> str:
    """RANK is a node's in a pod of a PyTorchJob, but a worker's where there is a LOCAL_RANK."""
    older = environ.get("PET_NNODES") and not environ.get("LOCAL_RANK")
    return "RANK" if older and not environ.get("PET_NODE_RANK") else "PET_NODE_RANK"


def _nodes(environ: Environ) -> int | None:
    text = environ.get("PET_NNODES", "")
    least, _, most = text.partition(":")
    if most not in {"", least}:
        raise bad("PET_NNODES", text, f"one number of nodes, such as {most}, not an elastic range")
    return number({"PET_NNODES": least}, "PET_NNODES", least=1)


def _check_rank(variable: str, rank: int, nodes: int | None) -> None:
    if nodes is not None and rank >= nodes:
        raise UsageError(f"{variable}: {rank}: there are {nodes} nodes, 0 to {nodes - 1}")


def _master(environ: Environ) -> tuple[str | None, int | None]:
    for prefix in ("PET_MASTER", "MASTER"):
        address = environ.get(f"{prefix}_ADDR")
        if address:
            _check_address(f"{prefix}_ADDR", address, address)
            return address, number(environ, f"{prefix}_PORT", least=1, most=_MAX_PORT)
    return endpoint("PET_RDZV_ENDPOINT", environ.get("PET_RDZV_ENDPOINT", ""))


def endpoint(variable: str, text: str) -> tuple[str | None, int | None]:
    """Return the two halves of `host:port`, `[address]:port` or `host`; "" has none, 0 is any port.

    Raises:
        UsageError: `variable`, or an option of that name, cannot be read.
    """
    if not text:
        return None, None
    from .hostfile import ENCLOSED

    enclosed = ENCLOSED.fullmatch(text)
    address, port = enclosed.groups("") if enclosed else text.partition(":")[::2]
    _check_address(variable, text, address)
    if port and not (is_count(port) and int(port) <= _MAX_PORT):
        raise bad(variable, text, f"HOST:PORT, with a port from 1 to {_MAX_PORT}")
    return address, int(port) if port else None


def _check_address(variable: str, text: str, address: str) -> None:
    from .names import check_name
    from .ranges import located

    try:
        check_name(address)
    except UsageError as fault:
        raise located(fault, variable, text) from None


def _workers(environ: Environ) -> int | None:
    variable = "PET_NPROC_PER_NODE"
    text = environ.get(variable, "")
    if text in WORDS_FOR_ALL:
        return None
    if text and not is_count(text):
        raise bad(variable, text, f"a number, or {', '.join(sorted(WORDS_FOR_ALL))}")
    return number(environ, variable, least=1, most=MAX_SLOTS)


def _mpi_task(here: _Here) -> ClusterEnvironment | None:
    if not any(name.endswith("_SIZE") for name in here.environ):
        return None  # none of them is at work, and a start on one machine needs no table of them
    from .mpi import LAUNCHERS

    return next(filter(None, (_task_of(launcher, here.environ) for launcher in LAUNCHERS)), None)


def _task_of(launcher: TaskVariables, environ: Environ) -> ClusterEnvironment | None:
    values = _numbers(environ, launcher[:3])
    if not values or values[1] < 2:
        return None
    rank, size, local_size = values
    if local_size > 1:
        raise UsageError(
            f"an MPI launcher started dsrun {local_size} times on this node "
            f"({launcher.local_size}); dsrun starts the workers itself: use one task a node "
            f"({launcher.once} -n NODES dsrun ...)"
        )
    _check_rank(launcher.rank, rank, size)
    return ClusterEnvironment(
        rank, size, None, None, None, f"a task of an MPI launcher ({launcher.rank})"
    )


_STEP = (
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_STEP_NUM_NODES",
    "SLURM_NODEID",
    "SLURM_PROCID",
)


def _slurm_task(here: _Here) -> ClusterEnvironment | None:
    environ = here.environ
    values = _numbers(environ, _STEP)
    if not values or not _is_task_of_job(values[0], environ):
        return None
    step, tasks, nodes, node, task = values
    if here.terminal and (tasks == 1 or environ.get("SLURM_PTY_PORT")):
        return None
    _check_step(tasks, nodes, node, task)
    hosts = _hosts_of_step(environ)
    job = environ.get("SLURM_JOB_ID", "")
    words = f"a task of srun (step {job}.{step}, SLURM_NODEID)"
    master = hosts[0] if hosts else None
    return ClusterEnvironment(node, nodes, master, None, None, words, hosts, _port(job, step))


def _check_step(tasks: int, nodes: int, node: int, task: int) -> None:
    if tasks > nodes:
        from ..common.wording import counted

        raise UsageError(
            f"srun started dsrun {tasks} times on {counted(nodes, 'node')}; dsrun starts "
            f"the workers itself: use srun --nodes={nodes} --ntasks={nodes} dsrun ..., or dsrun "
            "alone in the batch script"
        )
    if task != node:
        raise UsageError(f"SLURM_NODEID is {node}, but SLURM_PROCID is {task}: which node is this?")
    _check_rank("SLURM_NODEID", node, nodes)


def _hosts_of_step(environ: Environ) -> tuple[str, ...]:
    from .slurm import step_hosts

    return tuple(step_hosts(environ))


def _port(job: str, step: int) -> int:
    """A port for node 0 to be dialled at, another one for each step of each job on a node."""
    return _FIRST_PORT + (int(job if is_count(job) else 0) * 31 + step) % _PORTS


def _is_task_of_job(number: int, environ: Environ) -> bool:
    """Return whether a step is srun's and this job's: sbatch hands it on to what a task submits."""
    from .slurm import FIRST_SPECIAL_STEP

    if number >= FIRST_SPECIAL_STEP:
        return False
    step, job = environ.get("SLURM_STEP_NODELIST"), environ.get("SLURM_JOB_NODELIST")
    if not step or not job:
        return False
    if step == job:
        return True
    return set(_hosts(environ, "SLURM_STEP_NODELIST")) <= set(_hosts(environ, "SLURM_JOB_NODELIST"))


def _hosts(environ: Environ, variable: str) -> list[str]:
    from .nodelist import expand_nodelist

    return expand_nodelist(environ[variable], variable)


def _indexed_job(here: _Here) -> ClusterEnvironment | None:
    """A pod of an indexed Job; the MPI Operator's launcher pod is one, too, but not one of many."""
    rank = number(here.environ, "JOB_COMPLETION_INDEX")
    if rank is None or _is_operators(here.environ):
        return None
    pod, dot, domain = here.hostname.partition(".")
    stem, _, index = pod.rpartition("-")
    master = f"{stem}-0{dot}{domain}" if stem and index == str(rank) else None
    words = "a pod of an indexed Job (JOB_COMPLETION_INDEX)"
    return ClusterEnvironment(rank, None, master, None, None, words)


def _is_operators(environ: Environ) -> bool:
    from .nodefile import OPERATORS_HOSTFILE, OPERATORS_VARIABLES

    return OPERATORS_HOSTFILE in map(environ.get, OPERATORS_VARIABLES)


def _numbers(environ: Environ, variables: Sequence[str]) -> list[int] | None:
    """The numbers in the variables, or None if one is not set."""
    values = [number(environ, variable) for variable in variables]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


_SOURCES = (_torchrun, _mpi_task, _slurm_task, _indexed_job)
