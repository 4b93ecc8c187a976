"""What the options and variables of deepspeed and torchrun mean here, where it is not the same.

Pure.
"""

from __future__ import annotations

REFUSED = {
    "autotuning": "dsrun starts jobs, it does not tune them; use deepspeed's own --autotuning",
    "save_pid": "no pid file is written; signal dsrun itself, every worker gets it",
    "duplicate_stdout_filters": "grep the files of --log_dir",
    "duplicate_stderr_filters": "grep the files of --log_dir",
}
"""Options of the peers that can mean nothing here, each with the reason and what to use."""

IDLE = {
    "start_method": "workers are programs here, never functions",
    "event_log_handler": "--report_file FILE writes how the job ended",
}
"""Options of the peers that are accepted and change nothing, each with the reason."""

TORCHRUN_NAMES = frozenset(
    {
        "nproc_per_node",
        "nnodes",
        "standalone",
        "rdzv_backend",
        "rdzv_endpoint",
        "rdzv_id",
        "rdzv_conf",
    }
)
"""A line that uses these comes from torchrun, which passes no --local_rank to the script."""
HOSTS = frozenset({"host", "hostfile", "host_discovery_script", "watch_hostfile"})
"""Options that name hosts, of which torchrun knows nothing."""

PET = frozenset(
    {
        *("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"),
        *("standalone", "max_restarts", "monitor_interval", "start_method", "event_log_handler"),
        *("role", "module", "no_python", "run_path", "log_dir", "redirects", "tee"),
        *("local_ranks_filter", "master_addr", "master_port", "local_addr", "signals_to_handle"),
        *("shutdown_timeout", "virtual_local_rank"),
    }
)
"""Options that torchrun takes from PET_<NAME> (torch 2.13, `torch/distributed/run.py`).

PET_NODE_RANK is not among them: it says which node this is; `resources.cluster_environment` reads
it.
"""

TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
"""The variable in which torchrun is told what to put before each line of the workers' output."""


def prefix_of(template: str) -> str:
    """Return torchrun's template of a line's prefix in the words of --prefix.

    It is a `string.Template` with role_name, local_rank and rank (torch 2.13,
    `local_elastic_agent.py`); what it names besides stays as it is.
    """
    from string import Template

    fields = {"role_name": "role", "local_rank": "local_rank", "rank": "rank"}
    # Braces of the template's own are no fields of --prefix.
    marked = {name: f"\1{field}\2" for name, field in fields.items()}
    text = Template(template.replace("\1", "").replace("\2", "")).safe_substitute(marked)
    return text.replace("{", "{{").replace("}", "}}").replace("\1", "{").replace("\2", "}")
