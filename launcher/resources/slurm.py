"""What Slurm says of a job: its hosts, and how many of their GPUs are the job's. Pure.

The variables are those of sbatch(1), salloc(1) and srun(1). They are not all equally true:

* SLURM_GPUS_PER_NODE holds for every node, but sbatch hands the variables of the job that it was
  called in on to the job that it submits. SLURM_GPUS_ON_NODE is always the own job's, but tells of
  one node. Where they disagree, none is believed.
* `--gres` and `--gpus` leave nothing that tells of all nodes. Then each node counts what it sees,
  as Slurm shows a node's part of the job to what it starts there.
* A task is what the user wants one of for each process. It counts only where no GPUs are spoken of,
  and one task a node is how a launcher is started, not a wish for one worker.
"""

from __future__ import annotations

import re

from ..common.errors import UsageError
from ..common.values import NamedTuple
from ..specs.host import MAX_SLOTS, Host
from .counts import is_count, number
from .nodelist import expand_nodelist, task_counts
from .ranges import located, parse_slots, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Get = Callable[[str], str]
    Slots = tuple[Sequence[int | None], str]

FIRST_SPECIAL_STEP = 0xFFFFFFF0
"""Numbers from here on are the batch step, the interactive one and their like (slurm.h)."""

_SEPARATORS = re.compile(r"[:=/]")


class Component(NamedTuple):
    """The hosts of a job, or of one component of a heterogeneous job.

    Attributes:
        note: Where the slots come from, for the user.
    """

    hosts: list[Host]
    note: str


def component(environ: Mapping[str, str], variable: str, suffix: str = "") -> Component:
    """The hosts that `variable` lists, with their slots.

    Args:
        environ: The environment of the job.
        variable: Such as SLURM_JOB_NODELIST.
        suffix: What the names of the other variables end in, such as `_HET_GROUP_1`.

    Raises:
        UsageError: A variable cannot be read.
    """
    names = expand_nodelist(environ[variable], variable)
    counts, note = _slots(lambda name: environ.get(name + suffix, ""), len(names))
    return Component([_host(*pair, variable) for pair in zip(names, counts, strict=True)], note)


def components(environ: Mapping[str, str]) -> list[Component]:
    """The components of a heterogeneous job, in their order.

    Raises:
        UsageError: A variable is missing or cannot be read.
    """
    size = number(environ, "SLURM_HET_SIZE", least=1) or 1
    found = []
    for index in range(size):
        suffix = f"_HET_GROUP_{index}"
        if not environ.get(f"SLURM_JOB_NODELIST{suffix}"):
            raise UsageError(
                f"SLURM_HET_SIZE is {size}, but there is no SLURM_JOB_NODELIST{suffix}"
            )
        found.append(component(environ, f"SLURM_JOB_NODELIST{suffix}", suffix))
    return found


def step_hosts(environ: Mapping[str, str]) -> list[str]:
    """The hosts of this step in the order of SLURM_NODEID; none where Slurm does not tell it.

    SLURM_STEP_NODELIST has that order, but for a step of several components: it is sorted, while
    the nodes are numbered by components. In a job that srun itself has asked for, nothing says
    which these are.

    Raises:
        UsageError: A variable cannot be read.
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


def _slots(get: Get, nodes: int) -> Slots:
    """How many slots each of the nodes has, None where it counts them itself; and why."""
    alike, everywhere = _first(get, _PER_NODE)
    here, on_this = _first(get, _ON_THIS_NODE)
    if alike and here not in {0, alike}:
        return [None] * nodes, f"{everywhere} and {on_this} disagree"
    if alike:
        return [alike] * nodes, f"GPUs from {everywhere}"
    if here and nodes == 1:
        return [here], f"GPUs from {on_this}"
    if here or any(map(get, _IN_TOTAL)):
        return [None] * nodes, ""
    return _tasks(get, nodes)


def _tasks(get: Get, nodes: int) -> Slots:
    """As `_slots`, by the tasks that were asked for."""
    if get("SLURM_TASKS_PER_NODE") and (get("SLURM_NTASKS") or get("SLURM_NTASKS_PER_NODE")):
        counts = task_counts(get("SLURM_TASKS_PER_NODE"))
        # In a step of some of the nodes, the variable tells of these only.
        if len(counts) == nodes and 1 < max(counts) <= MAX_SLOTS and min(counts) > 0:
            return counts, "slots from SLURM_TASKS_PER_NODE"
    return [None] * nodes, ""


def _first(get: Get, readers: Mapping[str, Callable[[str], int]]) -> tuple[int, str]:
    """The first count that is not 0, and its variable."""
    for variable, reader in readers.items():
        try:
            count = reader(get(variable)) if get(variable) else 0
        except UsageError as fault:
            raise located(fault, variable, get(variable)) from None
        if count > MAX_SLOTS:
            raise UsageError(f"{variable}: {quoted(get(variable))}: more than {MAX_SLOTS} a node")
        if count:
            return count, variable
    return 0, ""


def _typed(text: str) -> int:
    """The GPUs of `4`, `a100:4` or `a100:2,v100:1`."""
    numbers = [item.rpartition(":")[2] for item in text.split(",")]
    if not all(is_count(number) for number in numbers):
        raise UsageError("expected a number of GPUs such as 4 or a100:4")
    return sum(map(int, numbers))


def _tres(text: str) -> int:
    """The GPUs of `gres/gpu:4`, `gres:gpu:a100:4` or `gres/gpu=4`, whatever else is listed."""
    items = [_SEPARATORS.split(item) for item in text.split(",")]
    gpus = [fields for fields in items if "gpu" in fields[:2]]
    return sum(int(fields[-1]) if is_count(fields[-1]) else 1 for fields in gpus)


def _listed(text: str) -> int:
    """The GPUs of `0,1` or `0-3`."""
    return len(parse_slots(text))


_PER_NODE = {"SLURM_GPUS_PER_NODE": _typed, "SLURM_TRES_PER_NODE": _tres}
_ON_THIS_NODE = {
    "SLURM_GPUS_ON_NODE": _typed,
    "SLURM_STEP_GPUS": _listed,
    "SLURM_JOB_GPUS": _listed,
}
_IN_TOTAL = ("SLURM_GPUS", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET")
