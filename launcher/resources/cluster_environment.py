"""Find this node's rank from the environment, if one command runs on every node.

The sources are tried in the order of `_SOURCES`. Variables that belong together are checked
together, because they may be stale: shells and jobs submitted from within a job inherit them.

* torchrun's own variables, which Kubeflow's Trainer and its older PyTorchJob set in every pod.
* A task of an MPI launcher. It comes before Slurm: if the launcher starts its daemons with srun,
  its tasks inherit the variables of that step.
* A task of srun. Slurm passes a step's variables to everything that a task starts, and to the jobs
  that it submits. A shell in a terminal (`srun --pty`, Jupyter's) does not count as a task: a
  command typed there is for the whole allocation. SLURM_PTY_PORT alone does not show this,
  because the tasks of an srun in such a shell inherit it; nor does a terminal alone, because
  `unbuffer` creates one for each task.
* A pod of an indexed Kubernetes Job, whose host name ends in its index.
"""

from __future__ import annotations

import os

from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.wording import counted, ranks_up_to
from ..specs.host import MAX_SLOTS, PRIVATE, WORDS_FOR_ALL
from .counts import bad, number
from .ranges import is_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .mpi import TaskVariables

    Environ = Mapping[str, str]

_MAX_PORT = 65535
# Below Linux's default range of ephemeral ports, which begins at 32768 (ip(7)).
_FIRST_PORT, _PORTS = 20000, 12000


class ClusterEnvironment(NamedTuple):
    """One node's place in a job whose command runs on every node.

    Attributes:
        nodes: the number of nodes; None if unknown.
        master_addr: node 0's host name or address; None if unknown.
        master_port: the port for the workers; None if unknown.
        slots: the number of workers to start here; None for one per device.
        words: text for the user: where this comes from.
        hosts: names of all nodes in order of rank; () if unknown.
        control_port: a port on node 0 that other jobs there do not use; None for the default.
        task: set by a launcher for each of its tasks, so it overrides --node_rank.
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


class _TaskVariables(NamedTuple):
    environ: Environ
    hostname: str
    terminal: bool


def find(environ: Environ, hostname: str, *, terminal: bool) -> ClusterEnvironment | None:
    """Return this node's place in the job, or None if the environment does not tell it.

    Args:
        environ: the environment of this process.
        hostname: this machine's name, with its domain if it has one.
        terminal: the result of `has_terminal`.

    Raises:
        UsageError: a variable is malformed, two disagree, or there are several tasks per node.
    """
    process = _TaskVariables(environ, hostname, terminal)
    return next(filter(None, (source(process) for source in _SOURCES)), None)


def check_agents(environ: Environ, places: int, *, terminal: bool) -> None:
    """Check that all tasks that were started for torch's rendezvous have a place in it.

    Else those on one node may take all, while other nodes wait for nothing.

    Args:
        environ: the environment of this process.
        places: the maximum number of nodes of the rendezvous; with one, no other node can join.
        terminal: the result of `has_terminal`.

    Raises:
        UsageError: a variable is malformed, or there are more tasks than places, several a node.
    """
    if places == 1:
        return
    step = _step_of(_TaskVariables(environ, "", terminal))
    if step is not None:
        _, tasks, nodes, *_ = step
        if tasks > max(nodes, places):
            started = f"srun started dsrun {tasks} times on {counted(nodes, 'node')}"
            raise _too_many(started, places, f"srun --nodes={nodes} --ntasks={nodes}")
    if not any(name.endswith("_SIZE") for name in environ):
        return
    from .mpi import LAUNCHERS

    for launcher in LAUNCHERS:
        _, size, here = _numbers(environ, launcher[:3]) or (0, 0, 0)
        if here > 1 and size > places:
            started = f"an MPI launcher started dsrun {here} times on this node"
            raise _too_many(f"{started} ({launcher.local_size})", places, launcher.once)


def _too_many(started: str, places: int, once: str) -> UsageError:
    return UsageError(
        f"{started}, but --nnodes allows only {counted(places, 'node')}: to torch's rendezvous each"
        f" dsrun is a node, so start one per node: {once} dsrun ..."
    )


def has_terminal() -> bool:
    """Return whether this process has a controlling terminal, with redirected streams as well."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _torchrun(process: _TaskVariables) -> ClusterEnvironment | None:
    environ = process.environ
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
    """Return the variable of the node rank: RANK in a PyTorchJob's pod, unless in a worker."""
    older = environ.get("PET_NNODES") and not environ.get("LOCAL_RANK")
    return "RANK" if older and not environ.get("PET_NODE_RANK") else "PET_NODE_RANK"


def _nodes(environ: Environ) -> int | None:
    text = environ.get("PET_NNODES", "")
    least, _, most = text.partition(":")
    if most not in {"", least}:
        raise bad("PET_NNODES", text, f"a fixed number of nodes, such as {most}")
    return number({"PET_NNODES": least}, "PET_NNODES", least=1)


def _check_rank(variable: str, rank: int, nodes: int | None) -> None:
    if nodes is not None and rank >= nodes:
        raise UsageError(f"{variable}: {rank}: {ranks_up_to(nodes, 'node')}")


def _master(environ: Environ) -> tuple[str | None, int | None]:
    for prefix in ("PET_MASTER", "MASTER"):
        address = environ.get(f"{prefix}_ADDR")
        if address:
            _check_address(f"{prefix}_ADDR", address, address)
            return address, number(environ, f"{prefix}_PORT", least=1, most=_MAX_PORT)
    return endpoint("PET_RDZV_ENDPOINT", environ.get("PET_RDZV_ENDPOINT", ""))


def endpoint(variable: str, text: str) -> tuple[str | None, int | None]:
    """Parse `host:port`, `[address]:port` or `host`; "" has neither, and port 0 means any port.

    Raises:
        UsageError: the text has another form; the message names `variable`, which may be an option.
    """
    if not text:
        return None, None
    from .hostfile import ENCLOSED

    enclosed = ENCLOSED.fullmatch(text)
    if not enclosed and text.count(":") > 1:
        from .names import in_brackets, is_ipv6

        meant = in_brackets(text) or (f"[{text}]:PORT" if is_ipv6(text) else "")
        if meant:
            raise bad(variable, text, f"an IPv6 address in brackets: {meant}")
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
    if text in WORDS_FOR_ALL | PRIVATE:
        return None
    if text and not is_count(text):
        words = [*sorted(WORDS_FOR_ALL), *sorted(PRIVATE)]
        raise bad(variable, text, f"a number, or {', '.join(words)}")
    return number(environ, variable, least=1, most=MAX_SLOTS)


def _mpi_task(process: _TaskVariables) -> ClusterEnvironment | None:
    environ = process.environ
    if not any(name.endswith("_SIZE") for name in environ):
        return None  # not a task of any of them: save the import
    from .mpi import LAUNCHERS

    return next(filter(None, (_task_of(launcher, environ) for launcher in LAUNCHERS)), None)


def _task_of(launcher: TaskVariables, environ: Environ) -> ClusterEnvironment | None:
    values = _numbers(environ, launcher[:3])
    if not values or values[1] < 2:
        return None
    rank, size, local_size = values
    if local_size > 1:
        raise UsageError(
            f"an MPI launcher started dsrun {local_size} times on this node "
            f"({launcher.local_size}); dsrun starts the workers itself, so start one task per "
            f"node: {launcher.once} -n NODES dsrun ..."
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


def _step_of(process: _TaskVariables) -> list[int] | None:
    """Return the numbers in `_STEP` if this is a task of srun, else None."""
    environ = process.environ
    values = _numbers(environ, _STEP)
    if not values or not _is_task_of_job(values[0], environ):
        return None
    shell = process.terminal and (values[1] == 1 or environ.get("SLURM_PTY_PORT"))
    return None if shell else values


def _slurm_task(process: _TaskVariables) -> ClusterEnvironment | None:
    environ = process.environ
    values = _step_of(process)
    if values is None:
        return None
    step, tasks, nodes, node, task = values
    _check_step(tasks, nodes, node, task)
    hosts = _hosts_of_step(environ)
    job = environ.get("SLURM_JOB_ID", "")
    words = f"a task of srun (step {job}.{step}, SLURM_NODEID)"
    master = hosts[0] if hosts else None
    return ClusterEnvironment(node, nodes, master, None, None, words, hosts, _port(job, step))


def _check_step(tasks: int, nodes: int, node: int, task: int) -> None:
    if tasks > nodes:
        raise UsageError(
            f"srun started dsrun {tasks} times on {counted(nodes, 'node')}; dsrun starts "
            f"the workers itself: use srun --nodes={nodes} --ntasks={nodes} dsrun ..., or dsrun "
            "without srun in the batch script"
        )
    if task != node:
        raise UsageError(
            f"SLURM_NODEID is {node}, but SLURM_PROCID is {task}; expected the same number, as "
            "srun --ntasks-per-node=1 sets them"
        )
    _check_rank("SLURM_NODEID", node, nodes)


def _hosts_of_step(environ: Environ) -> tuple[str, ...]:
    from .slurm import step_hosts

    return tuple(step_hosts(environ))


def _port(job: str, step: int) -> int:
    """Return a control port for node 0 that other steps and jobs on that node hardly use."""
    return _FIRST_PORT + (int(job if is_count(job) else 0) * 31 + step) % _PORTS


def _is_task_of_job(number: int, environ: Environ) -> bool:
    """Return whether a step is srun's and this job's; sbatch passes variables on to new jobs."""
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


def _indexed_job(process: _TaskVariables) -> ClusterEnvironment | None:
    """Return the place of an indexed Job's pod, unless it is the MPI Operator's launcher pod."""
    rank = number(process.environ, "JOB_COMPLETION_INDEX")
    if rank is None or _is_operators(process.environ):
        return None
    pod, dot, domain = process.hostname.partition(".")
    stem, _, index = pod.rpartition("-")
    master = f"{stem}-0{dot}{domain}" if stem and index == str(rank) else None
    words = "a pod of an indexed Job (JOB_COMPLETION_INDEX)"
    return ClusterEnvironment(rank, None, master, None, None, words)


def _is_operators(environ: Environ) -> bool:
    from .nodefile import OPERATORS_HOSTFILE, OPERATORS_VARIABLES

    return OPERATORS_HOSTFILE in map(environ.get, OPERATORS_VARIABLES)


def _numbers(environ: Environ, variables: Sequence[str]) -> list[int] | None:
    """Return the numbers in the variables, or None if one is not set."""
    values = [number(environ, variable) for variable in variables]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


_SOURCES = (_torchrun, _mpi_task, _slurm_task, _indexed_job)
