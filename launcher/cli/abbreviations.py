"""Abbreviations of options that torchrun or deepspeed accept. Pure.

Their parsers are argparse's, which accepts an unambiguous prefix of an option. Only prefixes of
*their* options have a meaning here: dsrun's own options are written in full, so a new option never
changes the meaning of a command line.

Sources: torch 2.13, `torch/distributed/run.py`; DeepSpeed 0.19, `deepspeed/launcher/runner.py`;
argparse, for which a prefix of two spellings of one option is unambiguous since Python 3.12.8
(gh-58573).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

TORCHRUN = (
    *("help", "nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"),
    *("standalone", "max_restarts", "monitor_interval", "start_method", "event_log_handler"),
    *("role", "module", "no_python", "run_path", "log_dir", "redirects", "tee"),
    *("local_ranks_filter", "duplicate_stdout_filters", "duplicate_stderr_filters", "node_rank"),
    *("master_addr", "master_port", "local_addr", "logs_specs", "numa_binding"),
    *("signals_to_handle", "shutdown_timeout", "virtual_local_rank"),
)
"""The options of torchrun, each with underscores or with dashes."""

DEEPSPEED = (
    *("help", "hostfile", "include", "exclude", "num_nodes", "min_elastic_nodes"),
    *("max_elastic_nodes", "num_gpus", "num_accelerators", "master_port", "node_rank"),
    *("master_addr", "launcher", "launcher_args", "module", "no_python", "no_local_rank", "no_ssh"),
    *("no_ssh_check", "force_multi", "save_pid", "enable_each_rank_log", "autotuning"),
    *("elastic_training", "bind_cores_to_rank", "bind_core_list", "ssh_port", "venv_script"),
    *("log_level", "quiet"),
)
"""The options of deepspeed, with underscores."""


def whole(word: str) -> str:
    """Return the only option with this prefix, or "".

    Args:
        word: the prefix as typed, without a value: `--nproc-per`.
    """
    start = word.removeprefix("--")
    if not start or start == word:
        return ""
    torchruns = _begun(start, (*TORCHRUN, *(name.replace("_", "-") for name in TORCHRUN)))
    meant = {next(iter(some)) for some in (torchruns, _begun(start, DEEPSPEED)) if len(some) == 1}
    return next(iter(meant)) if len(meant) == 1 else ""


def _begun(start: str, names: Iterable[str]) -> set[str]:
    return {name.replace("-", "_") for name in names if name.startswith(start)}
