"""The variables that travel to the nodes, and the whole environment of a worker. Pure.

The first rule that applies decides: a variable that the user names (`--export NAME[=VALUE]`, an
environment file) travels; one that belongs to the runner's machine or session, or whose name looks
like a secret, does not; any other travels if its name starts with a prefix that training jobs are
known to need.
"""

from __future__ import annotations

import os
from itertools import groupby

from ..common.errors import UsageError
from ..common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, TypeVar

    T = TypeVar("T")

TRAVEL = (
    *("MLFLOW", "PYTHON", "MV2_", "UCX_", "NEBULA_", "AZUREML_"),  # DeepSpeed's own list
    *("TORCH", "PYTORCH", "TRITON_", "GLOO_", "NCCL_", "HF_", "TRANSFORMERS_", "TOKENIZERS_"),
    *("WANDB_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "DS_", "DEEPSPEED_", "FI_"),
    *("LD_LIBRARY_PATH", "LC_", "LANG", "TZ", "DSRUN_ACCELERATOR"),
)
"""Prefixes of the names that travel by default, besides the accelerator's."""

MASKS = (
    *("*_VISIBLE_DEVICES", "*_VISIBLE_MODULES", "*_VISIBLE_CORES", "*_VISIBLE_CHIPS"),
    *("ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"),
)
"""Patterns of the names of variables that hide devices from a process."""

NEVER_FORWARDED = (
    *("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "BASH_FUNC_*", "PYTHONSTARTUP", "PYTHONHOME"),
    *("PYTHONEXECUTABLE", "SSH_*", "TORCHELASTIC_*", "NCCL_ASYNC_*"),
    *MASKS,
)
"""Patterns of names that belong to one machine, one shell or one job, and do not travel."""

SECRET = ("*_TOKEN", "*_KEY", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")
"""Patterns of names that look like secrets: they travel only if the user names them."""


OF_A_TASK = (
    *("OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_CTX_", "OMPI_NUM_APP_", "OMPI_FIRST_RANKS"),
    *("PMIX_", "PMI_", "PRTE_", "PALS_", "HYDI_", "MPI_LOCAL", "JSM_NAMESPACE_"),
    *("MV2_COMM_WORLD_", "MVP_COMM_WORLD_", "MPIRUN_", "MPISPAWN_", "I_MPI_INFO_"),
)
"""Prefixes of variables that an MPI launcher sets for its task, which is a node launcher or dsrun.

DeepSpeed, Lightning and accelerate would take OMPI_COMM_WORLD_RANK, PMI_RANK and the like for the
rank of a worker, and MPI_Init would speak to the launcher in the name of the task.
"""

_MCA = ("PMIX_MCA_", "PRTE_MCA_")

OF_ITS_LAUNCHER = (
    *("OMPI_", "OPAL_", *_MCA, "HYDRA_", "I_MPI_HYDRA_", "I_MPI_INTERNAL_"),
    *("I_MPI_PIN_INFO", "I_MPI_PIN_MAPPING", "I_MPI_BIND_WIN_ALLOCATE", "I_MPI_RETURN_WIN_MEM_"),
)
"""Prefixes of settings to which MPI launchers add; outside of a task they are the user's own."""

OF_A_SLURM_TASK = frozenset(
    {
        *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS"),
        *("SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_NNODES", "SLURM_GTIDS"),
        *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_NODES"),
    }
)
"""Variables of srun(1) about the places of tasks; workers get their own values."""

IDENTITY = "DSRUN_CONTAINER"
"""The variable of a node launcher in a container that names runtime and image, to be compared."""

NOTE = "DSRUN_CONTAINER_NOTE"
"""The variable there with a note on the container, for the user."""

CACHE = "DSRUN_CACHE"
"""The variable there that names the host's folder for caches, in which `--sync` keeps copies."""

JAX = "DSRUN_JAX"
"""The variable in JOB that asks for jax's variables; workers do not get it."""

MASK = "***"
"""Text printed in place of a secret."""


class ForwardedEnv(NamedTuple):
    """The variables that go to the nodes.

    Attributes:
        values: name to value; set on every node on top of the node's own environment.
        withheld: names that match a prefix, but look like secrets.
        secret: names in `values` whose values must not be printed.
    """

    values: dict[str, str]
    withheld: tuple[str, ...] = ()
    secret: frozenset[str] = frozenset()

    @property
    def masked(self) -> dict[str, str]:
        """The values, with secrets masked."""
        return {name: MASK if name in self.secret else value for name, value in self.values.items()}

    def __repr__(self) -> str:
        return f"ForwardedEnv({self.masked}, withheld={self.withheld})"


def travel(
    environ: Mapping[str, str], named: Mapping[str, str], prefixes: Iterable[str] = ()
) -> ForwardedEnv:
    """Choose the variables that go to every node.

    Args:
        environ: the runner's own environment.
        named: variables that the user names, with values; these always travel.
        prefixes: prefixes of variables that the accelerator's libraries need.
    """
    starts = (*TRAVEL, *prefixes)
    stays = (*NEVER_FORWARDED, *(f"{prefix}*" for prefix in OF_A_TASK))
    wanted = [n for n in environ if n.startswith(starts) and not _matches(n, stays)]
    withheld = tuple(sorted(n for n in wanted if _matches(n, SECRET) and n not in named))
    values = {name: environ[name] for name in wanted if name not in withheld}
    sent = {**values, **named}
    return ForwardedEnv(sent, withheld, frozenset(name for name in sent if _matches(name, SECRET)))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether a name matches one of the patterns, which may begin and end with a star."""
    return any(_match(name, pattern) for pattern in patterns)


def _match(name: str, pattern: str) -> bool:
    text, begins, ends = pattern.strip("*"), pattern[-1:] == "*", pattern[:1] == "*"
    if begins and ends:
        return text in name
    return name.startswith(text) if begins else name.endswith(text) if ends else name == text


def looks_secret(name: str) -> bool:
    """Return whether a variable's value must not be shown or sent."""
    return _matches(name, SECRET)


def is_mask(name: str) -> bool:
    """Return whether a variable hides devices."""
    return _matches(name, MASKS)


def masks(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hide devices."""
    return {name: value for name, value in environ.items() if _matches(name, MASKS)}


def rebased(own: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return another process's environment with the devices that this process can see."""
    hidden = masks(other)
    kept = {name: value for name, value in other.items() if name not in hidden}
    return kept | masks(own)


def of_mpi(names: Iterable[str]) -> frozenset[str]:
    """Return the variable names that identify the task of an MPI launcher."""
    among = frozenset(names)
    task = frozenset(n for n in among if n.startswith(OF_A_TASK) and not n.startswith(_MCA))
    settings = OF_ITS_LAUNCHER if any(name.endswith(_RANKS) for name in task) else ()
    return task.union(name for name in among if name.startswith(settings))


_RANKS = ("_RANK", "_RANKID")
"""Endings of the variables that every task has, and that only tasks have."""


def without_task(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a process's environment for children that are not tasks of its launcher.

    In a Slurm job, SLURM_PROCID stays as a mark that Slurm has started the process. Without
    SLURM_JOB_ID it is left over from another job, and is removed.
    """
    gone = of_mpi(environ)
    if "SLURM_PROCID" in environ:
        gone |= OF_A_SLURM_TASK - ({"SLURM_PROCID"} if environ.get("SLURM_JOB_ID") else set())
    return {name: value for name, value in environ.items() if name not in gone}


def exports(items: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `--export NAME` and `--export NAME=VALUE`, with values.

    Raises:
        UsageError: a name is empty, is not set, or is one that dsrun sets.
    """
    named = {}
    for item in items:
        name, given, value = item.partition("=")
        if not name or "\0" in item:
            raise UsageError(f"--export {item!r}: expected NAME or NAME=VALUE")
        if given and any(blank in name for blank in " \t\n"):
            raise UsageError(f"--export {item}: a name has no spaces; write NAME=VALUE")
        if name in RESERVED:
            instead = f"use {SET_BY[name]}" if name in SET_BY else "leave it out"
            raise UsageError(f"--export {name}: dsrun sets it for every worker; {instead}")
        if name.split(",")[0] in {"ALL", "NONE"} and ("," in name or not given):
            raise UsageError(
                f"--export {name}: a keyword of srun; variables with well-known prefixes are"
                " sent anyway, others by name"
            )
        if not given and ("," in name or " " in name):
            several = " ".join(f"--export {one}" for one in name.replace(",", " ").split())
            raise UsageError(f"--export {name}: takes one variable; write {several}")
        if not given and name not in environ:
            raise UsageError(f"--export {name}: is not set; set it, or write {name}=VALUE")
        named[name] = value if given else environ[name]
    return named


def parse_env_file(text: str, name: str) -> dict[str, str]:
    """Parse an environment file: NAME=VALUE lines, `#` comments and blank lines.

    A value is the rest of its line, blanks included. A value in a pair of quotes is the text
    between them; blanks may follow. A leading `export ` is allowed, as in shell scripts.

    Raises:
        UsageError: a line has another form; the message names file and line.
    """
    values = {}
    for number, line in enumerate(text.split("\n"), 1):
        begun = line.removesuffix("\r").lstrip(" \t")
        if not begun.rstrip(" \t") or begun.startswith("#"):
            continue
        key, given, value = begun.removeprefix("export ").lstrip(" \t").partition("=")
        if "\0" in line:
            raise UsageError(f"{name}:{number}: {key[:60]!r}: a variable cannot have a NUL byte")
        if not given or not key.isidentifier():
            shown = begun.rstrip(" \t")[:60]
            import re  # not every node needs it

            meant = re.match(r"([A-Za-z_][A-Za-z0-9_]*)[ \t]*[:=][ \t]*([^ \t].*)", shown)
            hint = f"; write {meant[1]}={meant[2]}" if meant else ""
            raise UsageError(f"{name}:{number}: {shown!r}: expected NAME=VALUE{hint}")
        values[key] = _unquoted(value)
    return values


def _unquoted(value: str) -> str:
    alone = value.rstrip(" \t")
    quoted = len(alone) >= 2 and alone[0] == alone[-1] and alone[0] in "'\""
    return alone[1:-1] if quoted else value


class RankInfo(NamedTuple):
    """The position of one worker in the job, from which its rank variables are made."""

    rank: int
    local_rank: int
    local_size: int
    world_size: int
    node_rank: int
    nodes: int
    master_addr: str
    master_port: int
    job_id: str
    role: str = "default"
    restarts: int = 0
    max_restarts: int = 0
    agent_store: bool = False
    run_id: str = ""
    world: str = ""
    error_file: str = ""


def rank_variables(info: RankInfo) -> dict[str, str]:
    """Return the variables that dsrun sets for a worker.

    The names are torch's agent's (torch 2.13, `local_elastic_agent.py`) and DeepSpeed's node
    launcher's (0.19, `launch.py`): scripts written for either work.
    """
    world, local = str(info.world_size), str(info.local_size)
    return {
        "RANK": str(info.rank),
        "LOCAL_RANK": str(info.local_rank),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": str(info.node_rank),
        "GROUP_WORLD_SIZE": str(info.nodes),
        "ROLE_RANK": str(info.rank),
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": info.role,
        "NODE_RANK": str(info.node_rank),
        "MASTER_ADDR": info.master_addr,
        "MASTER_PORT": str(info.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(info.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(info.max_restarts),
        "TORCHELASTIC_RUN_ID": info.run_id or info.job_id,
        # Rank 0 opens the store itself, unless torch's agent has one.
        "TORCHELASTIC_USE_AGENT_STORE": str(info.agent_store),
        "CROSS_RANK": str(info.node_rank),
        "CROSS_SIZE": str(info.nodes),
        "LOCAL_SIZE": local,
        "DSRUN_JOB_ID": info.job_id,
        **({"DSRUN_WORLD_INFO": info.world} if info.world else {}),
        **({"TORCHELASTIC_ERROR_FILE": info.error_file} if info.error_file else {}),
    }


SET_BY = {
    "MASTER_ADDR": "--master_addr",
    "MASTER_PORT": "--master_port",
    "ROLE_NAME": "--role",
    "TORCHELASTIC_RUN_ID": "--rdzv_id",
    "TORCHELASTIC_MAX_RESTARTS": "--max_restarts",
}
"""The options that determine some of these variables."""

RESERVED = frozenset(
    rank_variables(RankInfo(0, 0, 1, 1, 0, 1, "", 0, "", world="-", error_file="-"))
)
"""The variables that dsrun sets for every worker; the user cannot set them."""

ROUND = frozenset(
    {
        *("RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
        *("NODE_RANK", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"),
        *(OF_A_SLURM_TASK - {"SLURM_LOCALID"}),
        "DSRUN_WORLD_INFO",
    }
)
"""Variables whose values change between the rounds of an elastic job for a worker on a slot."""


def of_slurm(
    info: RankInfo, base: Mapping[str, str], workers: Sequence[int] = ()
) -> dict[str, str]:
    """Return Slurm's variables as if srun had started every worker; {} outside of Slurm's tasks.

    Scripts and libraries such as Lightning take their rank from these variables; the values of the
    node launcher or of the batch script would be wrong.

    Args:
        info: the worker's position.
        base: the base of the workers' environment, as `without_task` returns it.
        workers: the number of workers on each node; () if unknown.
    """
    if "SLURM_PROCID" not in base:
        return {}
    world, nodes = str(info.world_size), str(info.nodes)
    each = _runs(workers or ((info.local_size,) if info.nodes == 1 else ()))
    step = {
        "SLURM_STEP_NUM_TASKS": world,
        "SLURM_STEP_NUM_NODES": nodes,
        **({"SLURM_STEP_TASKS_PER_NODE": each} if each else {}),
    }
    return {
        "SLURM_PROCID": str(info.rank),
        "SLURM_LOCALID": str(info.local_rank),
        "SLURM_NODEID": str(info.node_rank),
        "SLURM_NTASKS": world,
        "SLURM_NPROCS": world,
        "SLURM_NNODES": nodes,
        "SLURM_NTASKS_PER_NODE": str(info.local_size),
        **({"SLURM_TASKS_PER_NODE": each} if each else {}),
        **(step if "SLURM_STEP_ID" in base else {}),
    }


def _runs(counts: Sequence[int]) -> str:
    """Return counts in Slurm's format: `2(x3),1` for 2, 2, 2, 1."""
    runs = ((count, len([*same])) for count, same in groupby(counts))
    return ",".join(f"{count}(x{times})" if times > 1 else str(count) for count, times in runs)


def worker(
    base: Mapping[str, str],
    sent: Mapping[str, str],
    promised: Mapping[str, str],
    *,
    first: str,
    python: str,
    threads: int,
) -> dict[str, str]:
    """Return a worker's whole environment.

    Args:
        base: the node launcher's environment. Settings of dsrun are removed: they must not affect a
            dsrun inside the job.
        sent: the variables that travelled; they override `base`.
        promised: rank variables and the device mask; they override both.
        first: a folder to put at the front of PYTHONPATH, or "".
        python: the interpreter; its folder is added to PATH, so that its tools are found.
        threads: OMP_NUM_THREADS, unless that is set.
    """
    env = {name: value for name, value in base.items() if not name.startswith("DSRUN_")} | {**sent}
    env.setdefault("OMP_NUM_THREADS", str(max(1, threads)))
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if first:
        env["PYTHONPATH"] = _before(first, env.get("PYTHONPATH", ""))
    env["PATH"] = _including(os.path.dirname(python), env.get("PATH", os.defpath))
    env.update(promised)
    return env


def placed(env: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment of a shell that has always been in this folder, an absolute path.

    PWD has no `.` and `..` in it (POSIX, Shell & Utilities, 2.5.3). OLDPWD is removed: no shell was
    elsewhere.
    """
    here = folder if os.path.normpath(folder) == folder else os.path.realpath(folder)
    return {name: value for name, value in env.items() if name != "OLDPWD"} | {"PWD": here}


def without_empty_folders(env: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose LD_LIBRARY_PATH has no empty entry, which would mean any folder.

    Open MPI leaves an empty entry behind its own folder where the variable was not set (`plm_rsh`).
    """
    name = "LD_LIBRARY_PATH"
    if name not in env:
        return {**env}
    others = {one: value for one, value in env.items() if one != name}
    folders = ":".join(filter(None, env[name].split(":")))
    return others | ({name: folders} if folders else {})


def _before(folder: str, path: str) -> str:
    return f"{folder}:{path}" if path else folder


def _including(folder: str, path: str) -> str:
    return path if not folder or folder in path.split(":") else f"{folder}:{path}"


def to_wire(text: str | bytes) -> str:
    """Return text in the file system's encoding in a form for JSON: decoded as UTF-8."""
    if isinstance(text, str) and text.isascii():
        return text
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def from_wire(text: str) -> bytes:
    """Return the bytes that `to_wire` has encoded, for exec."""
    return text.encode("utf-8", "surrogateescape")


def text_from_wire(text: str) -> str:
    """Return the string that `to_wire` has encoded."""
    return os.fsdecode(from_wire(text))


def each_text(value: T, convert: Callable[[str], str]) -> T:
    """Return a spec, a message or a part of one, with every text in it converted."""

    def converted(part: Any) -> Any:
        kind = type(part)
        if isinstance(part, str):
            return convert(part)
        if isinstance(part, dict):
            return {converted(name): converted(one) for name, one in part.items()}
        if isinstance(part, tuple):
            return tuple.__new__(kind, [converted(one) for one in part])
        return frozenset(map(converted, part)) if kind is frozenset else part

    return converted(value)  # type: ignore[no-any-return]
