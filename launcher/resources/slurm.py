"""Read the hosts of a Slurm job, and how many of their GPUs belong to the job. Pure.

sbatch(1), salloc(1) and srun(1) describe the variables, some of which are unreliable:

* SLURM_GPUS_PER_NODE holds for every node, but it may be stale: sbatch passes the variables of the
  job that it is called in on to the job that it submits. SLURM_GPUS_ON_NODE always belongs to
  this job, but covers one node only. If they disagree, neither is used, and a line says so.
* `--gres` and `--gpus` set no variable that covers all nodes. Then each node counts the devices
  that it sees, namely those that Slurm has given to the job there.
* The number of tasks is used only if no GPUs are requested. One task per node is how a launcher is
  started; it does not mean one worker.
"""

from __future__ import annotations

import re

from ..common.errors import UsageError
from ..common.records import NamedTuple
from ..common.wording import counted
from ..specs.host import MAX_SLOTS, Host
from .counts import number
from .nodelist import expand_nodelist, task_counts
from .ranges import is_count, located, parse_slots, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Get = Callable[[str], str]
    Slots = tuple[Sequence[int | None], str]

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Numbers from here on are the batch step, the interactive step and the like (slurm.h)."""

_SEPARATORS = re.compile(r"[:=/]")


class Component(NamedTuple):
    """The hosts of a job, or of one component of a heterogeneous job.

    Attributes:
        hosts: the hosts with their slots.
        note: the source of the slots, for the user.
    """

    hosts: list[Host]
    note: str


def component(environ: Mapping[str, str], variable: str, suffix: str = "") -> Component:
    """Return the hosts that `variable` lists, with their slots.

    Args:
        environ: the environment of the job.
        variable: such as SLURM_JOB_NODELIST.
        suffix: the end of the other variables' names, such as `_HET_GROUP_1`.

    Raises:
        UsageError: a variable is malformed.
    """
    names = expand_nodelist(environ[variable], variable)
    counts, note = _slots(_getter(environ, suffix), len(names))
    return Component([_host(*pair, variable) for pair in zip(names, counts, strict=True)], note)


def components(environ: Mapping[str, str]) -> list[Component]:
    """Return the components of a heterogeneous job, in their order.

    Raises:
        UsageError: a variable is missing or malformed.
    """
    size = number(environ, "SLURM_HET_SIZE", least=1) or 1
    parts = []
    for index in range(size):
        suffix = f"_HET_GROUP_{index}"
        if not environ.get(f"SLURM_JOB_NODELIST{suffix}"):
            raise UsageError(f"SLURM_HET_SIZE is {size}, but SLURM_JOB_NODELIST{suffix} is not set")
        parts.append(component(environ, f"SLURM_JOB_NODELIST{suffix}", suffix))
    return parts


def stale_requests(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that request other GPUs than the job has here, each with a message.

    A step may have fewer GPUs than its job, so its GPUs tell nothing about the job.
    """
    has, known_by = _first(lambda name: environ.get(name, ""), _ON_THIS_NODE)
    if not has or in_a_step(environ):
        return {}
    asked = {name: read(environ[name]) for name, read in _ASKED.items() if environ.get(name)}
    wrong = [name for name, count in asked.items() if count not in {0, has}]
    totals = {"SLURM_GPUS": _total(environ.get("SLURM_GPUS", ""))}
    totals["SLURM_GPUS_PER_TASK"] = gpus_of_tasks(environ)
    wrong += [name for name, count in totals.items() if 0 < count < has]
    return {
        name: f"{name}={quoted(environ[name])[1:-1]} is not for this job, which has"
        f" {counted(has, 'GPU')} here ({known_by}): it is ignored; `unset {name}`"
        for name in wrong
    }


def gpus_of_tasks(environ: Mapping[str, str]) -> int:
    """Return the number of GPUs of the whole job if they were requested per task, else 0."""
    tasks = environ.get("SLURM_NTASKS", "")
    each = _total(environ.get("SLURM_GPUS_PER_TASK", ""))
    return each * int(tasks) if is_count(tasks) else 0


def in_a_step(environ: Mapping[str, str]) -> bool:
    """Return whether this runs in a step of the job, as a shell of `srun --pty` does."""
    step = environ.get("SLURM_STEP_ID", "")
    return step.isdecimal() and int(step) < FIRST_SPECIAL_STEP


def with_tasks(hosts: Sequence[Host], environ: Mapping[str, str]) -> list[Host]:
    """Return the hosts of a job; those without a number of devices get a slot for each task.

    That is right where a task is a rank, but only if the job has requested a number of tasks.
    """
    counts: dict[str, int] = {}
    for variable, text in environ.items():
        stem, group, index = variable.partition("_HET_GROUP_")
        if stem == "SLURM_JOB_NODELIST" and text:
            names = expand_nodelist(text, variable)
            slots, _ = _tasks(_getter(environ, group + index), len(names), least=1)
            counts |= {name: count for name, count in zip(names, slots, strict=True) if count}
    return [
        host._replace(slots=tuple(range(counts[host.name])))
        if host.slots is None and host.name in counts
        else host
        for host in hosts
    ]


def step_hosts(environ: Mapping[str, str]) -> list[str]:
    """Return the hosts of this step in the order of SLURM_NODEID, [] if Slurm does not list them.

    SLURM_STEP_NODELIST has that order, except for a step of several components: then it is sorted,
    while the nodes are numbered by component. In a job that srun itself has requested, no variable
    says which hosts belong to which component.

    Raises:
        UsageError: a variable is malformed.
    """
    hosts = expand_nodelist(environ["SLURM_STEP_NODELIST"], "SLURM_STEP_NODELIST")
    leader = environ.get("SLURM_JOB_ID_HET_GROUP_0", environ.get("SLURM_JOB_ID"))
    if not environ.get("SLURM_HET_SIZE") or leader != environ.get("SLURM_JOB_ID"):
        return hosts
    if not environ.get("SLURM_JOB_NODELIST_HET_GROUP_0"):
        return []
    step = set(hosts)
    numbered = [host.name for part in components(environ) for host in part.hosts]
    ordered = [name for name in numbered if name in step]
    return ordered if len(ordered) == len(hosts) else []


def _host(name: str, count: int | None, variable: str) -> Host:
    return Host(name, None if count is None else tuple(range(count)), where=variable)


def _getter(environ: Mapping[str, str], suffix: str) -> Get:
    return lambda name: environ.get(name + suffix, "")


def _slots(get: Get, nodes: int) -> Slots:
    """Return the number of slots of each node, None if it counts its devices; and the source."""
    per_node, per_node_variable = _first(get, _PER_NODE)
    on_node, on_node_variable = _first(get, _ON_THIS_NODE)
    if per_node and on_node not in {0, per_node}:
        return [None] * nodes, f"{per_node_variable} and {on_node_variable} disagree"
    if per_node:
        return [per_node] * nodes, f"GPUs from {per_node_variable}"
    if on_node and nodes == 1:
        return [on_node], f"GPUs from {on_node_variable}"
    if on_node or any(map(get, _IN_TOTAL)):
        return [None] * nodes, ""
    return _tasks(get, nodes)


def _tasks(get: Get, nodes: int, least: int = 2) -> Slots:
    """Return slots from the number of tasks, if that is `least` or more on some node."""
    if get("SLURM_TASKS_PER_NODE") and (get("SLURM_NTASKS") or get("SLURM_NTASKS_PER_NODE")):
        counts = task_counts(get("SLURM_TASKS_PER_NODE"))
        # In a step on some of the nodes, the variable covers only these.
        if len(counts) == nodes and least <= max(counts) <= MAX_SLOTS and min(counts) > 0:
            return counts, "slots from SLURM_TASKS_PER_NODE"
    return [None] * nodes, ""


def _first(get: Get, readers: Mapping[str, Callable[[str], int]]) -> tuple[int, str]:
    """Return the first count that is not 0, and its variable."""
    for variable, reader in readers.items():
        try:
            count = reader(get(variable)) if get(variable) else 0
        except UsageError as fault:
            raise located(fault, variable, get(variable)) from None
        if count > MAX_SLOTS:
            limit = f"expected at most {MAX_SLOTS} per node"
            raise UsageError(f"{variable}: {quoted(get(variable))}: {limit}")
        if count:
            return count, variable
    return 0, ""


def _total(text: str) -> int:
    """Return the number of GPUs in `8` or `a100:8`, 0 if it is neither."""
    number = text.rpartition(":")[2]
    return int(number) if is_count(number) else 0


def _typed(text: str) -> int:
    """Return the number of GPUs in `4`, `a100:4` or `a100:2,v100:1`."""
    numbers = [item.rpartition(":")[2] for item in text.split(",")]
    if not all(is_count(number) for number in numbers):
        raise UsageError("expected a number of GPUs such as 4 or a100:4")
    return sum(map(int, numbers))


def gpus_of(text: str) -> int:
    """Return the number of GPUs in `gres/gpu:4`, `gres:gpu:a100:4` or `gres/gpu=4` among others."""
    items = [_SEPARATORS.split(item) for item in text.split(",")]
    gpus = [fields for fields in items if "gpu" in fields[:2]]
    return sum(int(fields[-1]) if is_count(fields[-1]) else 1 for fields in gpus)


def _listed(text: str) -> int:
    """Return the number of GPUs in `0,1` or `0-3`."""
    return len(parse_slots(text))


_PER_NODE = {"SLURM_GPUS_PER_NODE": _typed, "SLURM_TRES_PER_NODE": gpus_of}
_ON_THIS_NODE = {
    "SLURM_GPUS_ON_NODE": _typed,
    "SLURM_STEP_GPUS": _listed,
    "SLURM_JOB_GPUS": _listed,
}
_ASKED = {**_PER_NODE, "SLURM_GRES": gpus_of, "SLURM_STEP_GRES": gpus_of}
"""Variables that srun takes for requests of GPUs on each node (srun(1))."""

_IN_TOTAL = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET")
