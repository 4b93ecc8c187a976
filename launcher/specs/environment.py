"""Which variables travel to the nodes, and the whole environment of one worker. Pure.

The rule, in order: a variable the user names (`--export NAME[=VALUE]`, an environment file) always
travels; a variable that belongs to the runner's own machine or session never does by itself; one
whose name says that it is a secret does not unless named; the rest travel when their name starts
with a prefix that training jobs are known to need.
"""

from __future__ import annotations

import os

from ..common.errors import UsageError
from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TRAVEL = (
    *("MLFLOW", "PYTHON", "MV2_", "UCX_", "NEBULA_", "AZUREML_"),  # DeepSpeed's own list
    *("TORCH", "PYTORCH", "TRITON_", "GLOO_", "NCCL_", "HF_", "TRANSFORMERS_", "TOKENIZERS_"),
    *("WANDB_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "DS_", "DEEPSPEED_", "FI_"),
    *("LD_LIBRARY_PATH", "LC_", "LANG", "TZ", "DSRUN_ACCELERATOR"),
)
"""Prefixes of the names that travel by themselves, beside those of the accelerator."""

STAY = (
    *("LD_PRELOAD", "LD_AUDIT", "BASH_ENV", "BASH_FUNC_*", "PYTHONSTARTUP", "PYTHONHOME"),
    *("PYTHONEXECUTABLE", "SSH_*", "TORCHELASTIC_*", "NCCL_ASYNC_*"),
    *("*_VISIBLE_DEVICES", "*_VISIBLE_MODULES", "*_VISIBLE_CORES", "*_VISIBLE_CHIPS"),
    *("ZE_AFFINITY_MASK", "GPU_DEVICE_ORDINAL"),
)
"""Patterns of names that belong to one machine, one shell or one job and stay with it."""

SECRET = ("*_TOKEN", "*_KEY", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*CREDENTIAL*")
"""Patterns of names that look like secrets: they travel only when the user names them."""


MASK = "***"
"""What is shown of a secret."""


class Travel(NamedTuple):
    """What the nodes are sent.

    Attributes:
        values: name to value; set on every node on top of what the node has itself.
        withheld: names that a prefix would have let travel, but that look like secrets.
        secret: names in `values` whose values are not for showing.
    """

    values: dict[str, str]
    withheld: tuple[str, ...] = ()
    secret: frozenset[str] = frozenset()

    @property
    def masked(self) -> dict[str, str]:
        """The values, as they may be shown."""
        return {name: MASK if name in self.secret else value for name, value in self.values.items()}

    def __repr__(self) -> str:
        return f"Travel({self.masked}, withheld={self.withheld})"


def travel(
    environ: Mapping[str, str], named: Mapping[str, str], prefixes: Iterable[str] = ()
) -> Travel:
    """Choose the variables that go to every node.

    Args:
        environ: the runner's own environment.
        named: what the user named, with values; always travels.
        prefixes: what the accelerator's libraries need, by prefix.
    """
    starts = (*TRAVEL, *prefixes)
    able = [n for n in environ if n.startswith(starts) and not _matches(n, STAY)]
    withheld = tuple(sorted(n for n in able if _matches(n, SECRET) and n not in named))
    values = {name: environ[name] for name in able if name not in withheld}
    sent = {**values, **named}
    return Travel(sent, withheld, frozenset(name for name in sent if _matches(name, SECRET)))


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return whether one of the patterns is the name; a star may begin it, and another end it."""
    return any(_match(name, pattern) for pattern in patterns)


def _match(name: str, pattern: str) -> bool:
    text, begins, ends = pattern.strip("*"), pattern[-1:] == "*", pattern[:1] == "*"
    if begins and ends:
        return text in name
    return name.startswith(text) if begins else name.endswith(text) if ends else name == text


def exports(items: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what `--export NAME` and `--export NAME=VALUE` name, with values.

    Raises:
        UsageError: a name is empty, has no value here either, or is one that dsrun sets.
    """
    named = {}
    for item in items:
        name, given, value = item.partition("=")
        if not name or "\0" in item:
            raise UsageError(f"--export {item!r}: expected NAME or NAME=VALUE")
        if name in PROMISED:
            say = f"give {SET_BY[name]}" if name in SET_BY else "leave it out"
            raise UsageError(f"--export {name}: dsrun sets it for every worker; {say}")
        if not given and ("," in name or " " in name):
            several = " ".join(f"--export {one}" for one in name.replace(",", " ").split())
            raise UsageError(f"--export {name}: names one variable; write {several}")
        if not given and name not in environ:
            raise UsageError(f"--export {name}: not set here; set it or write {name}=VALUE")
        named[name] = value if given else environ[name]
    return named


def parse_env_file(text: str, name: str) -> dict[str, str]:
    """Return the variables of an environment file: NAME=VALUE lines, `#` comments, blank lines.

    Values are taken to the end of the line as they are; one pair of quotes around a value is
    taken off. A leading `export ` is allowed, so that a shell's file may serve.

    Raises:
        UsageError: a line is neither; the message names file and line.
    """
    values = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.removesuffix("\r").strip(" \t")
        if not stripped or stripped.startswith("#"):
            continue
        key, given, value = stripped.removeprefix("export ").partition("=")
        if not given or not key.isidentifier():
            raise UsageError(f"{name}:{number}: {stripped[:60]!r}: expected NAME=VALUE")
        values[key] = _unquoted(value)
    return values


def _unquoted(value: str) -> str:
    quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if quoted else value


class RankInfo(NamedTuple):
    """Where one worker sits in the job: all that its rank variables are made from."""

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
    elastic: bool = False
    run_id: str = ""
    world: str = ""
    error_file: str = ""


def contract(seat: RankInfo) -> dict[str, str]:
    """Return the variables a worker is promised.

    The names are those of torch's agent (torch 2.13, `local_elastic_agent.py`) and of DeepSpeed's
    node launcher (0.19, `launch.py`); a script written for either finds what it looks for.
    """
    world, local = str(seat.world_size), str(seat.local_size)
    return {
        "RANK": str(seat.rank),
        "LOCAL_RANK": str(seat.local_rank),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": local,
        "GROUP_RANK": str(seat.node_rank),
        "GROUP_WORLD_SIZE": str(seat.nodes),
        "ROLE_RANK": str(seat.rank),
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": seat.role,
        "NODE_RANK": str(seat.node_rank),
        "MASTER_ADDR": seat.master_addr,
        "MASTER_PORT": str(seat.master_port),
        "TORCHELASTIC_RESTART_COUNT": str(seat.restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(seat.max_restarts),
        "TORCHELASTIC_RUN_ID": seat.run_id or seat.job_id,
        # Rank 0 opens the store itself, but where torch's agent holds one.
        "TORCHELASTIC_USE_AGENT_STORE": str(seat.elastic),
        "CROSS_RANK": str(seat.node_rank),
        "CROSS_SIZE": str(seat.nodes),
        "LOCAL_SIZE": local,
        "DSRUN_JOB_ID": seat.job_id,
        **({"DSRUN_WORLD_INFO": seat.world} if seat.world else {}),
        **({"TORCHELASTIC_ERROR_FILE": seat.error_file} if seat.error_file else {}),
    }


SET_BY = {
    "MASTER_ADDR": "--master_addr",
    "MASTER_PORT": "--master_port",
    "ROLE_NAME": "--role",
    "TORCHELASTIC_RUN_ID": "--rdzv_id",
    "TORCHELASTIC_MAX_RESTARTS": "--max_restarts",
}
"""Promised variables that an option says."""

PROMISED = frozenset(contract(RankInfo(0, 0, 1, 1, 0, 1, "", 0, "", world="-", error_file="-")))
"""The variables that every worker is promised, and nobody else sets."""

ROUND = frozenset(
    {
        *("RANK", "WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK", "ROLE_WORLD_SIZE"),
        *("NODE_RANK", "CROSS_RANK", "CROSS_SIZE", "MASTER_ADDR", "MASTER_PORT"),
        *("TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS", "TORCHELASTIC_ERROR_FILE"),
        *("SLURM_PROCID", "SLURM_NODEID", "SLURM_NTASKS", "SLURM_NPROCS", "DSRUN_WORLD_INFO"),
    }
)
"""Promised variables that a worker of the same slot has with other values in another round."""


def of_slurm(seat: RankInfo, base: Mapping[str, str]) -> dict[str, str]:
    """Return what Slurm's variables would be, had srun started every worker itself.

    A script, or a library such as Lightning, that finds them takes them for its own place; those
    of the node launcher, or of the batch script, would be wrong.
    """
    world = str(seat.world_size)
    places = {
        "SLURM_PROCID": str(seat.rank),
        "SLURM_LOCALID": str(seat.local_rank),
        "SLURM_NODEID": str(seat.node_rank),
        "SLURM_NTASKS": world,
        "SLURM_NPROCS": world,
    }
    return places if "SLURM_PROCID" in base else {}


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
        base: what the node launcher has itself; dsrun's own settings in it are left out, so
            that a dsrun inside the job starts afresh.
        sent: what travelled; wins over `base`.
        promised: rank variables and the device mask; win over both.
        first: a folder that is put before PYTHONPATH, "" for none.
        python: the interpreter; its folder is put on PATH, so that its tools are found.
        threads: OMP_NUM_THREADS, where nobody has set it.
    """
    env = {name: value for name, value in base.items() if not name.startswith("DSRUN_")} | {**sent}
    env.setdefault("OMP_NUM_THREADS", str(max(1, threads)))
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if first:
        env["PYTHONPATH"] = _before(first, env.get("PYTHONPATH", ""))
    env["PATH"] = _including(os.path.dirname(python), env.get("PATH", os.defpath))
    env.update(promised)
    return env


def _before(folder: str, path: str) -> str:
    return f"{folder}:{path}" if path else folder


def _including(folder: str, path: str) -> str:
    return path if not folder or folder in path.split(":") else f"{folder}:{path}"


def to_wire(text: str) -> str:
    """Return `text` as it travels: its bytes, as UTF-8 would have decoded them."""
    return os.fsencode(text).decode("utf-8", "surrogateescape")


def from_wire(text: str) -> bytes:
    """Return the very bytes that `to_wire` was given, for an exec."""
    return text.encode("utf-8", "surrogateescape")
