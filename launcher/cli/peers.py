"""Options and variables of deepspeed and torchrun that dsrun treats in a way of their own. Pure."""

from __future__ import annotations

REFUSED = {
    "autotuning": "run deepspeed itself for autotuning",
    "save_pid": "send signals to dsrun itself, which passes them on to every worker",
    "duplicate_stdout_filters": "search the files of --log_dir, for instance with grep",
    "duplicate_stderr_filters": "search the files of --log_dir, for instance with grep",
}
"""Options that are refused, each with what to do instead."""

MEANT = {
    "env": "export",
    "x": "export",
    "-x": "export",
    "report": "report_file",
    "num_processes": "num_gpus",
    "num_procs": "num_gpus",
    "nproc": "num_gpus",
    "np": "num_gpus",
    "-np": "num_gpus",
    "-n": "num_gpus",
    "ntasks": "num_gpus",
    "ntasks_per_node": "num_gpus",
    "gpus": "num_gpus",
    "gpus_per_node": "num_gpus",
    "gpu_ids": "include",
    "-N": "num_nodes",
    "nodes": "num_nodes",
    "num_machines": "num_nodes",
    "nodelist": "host",
    "-w": "host",
    "hosts": "host",
    "machine_rank": "node_rank",
    "main_process_ip": "master_addr",
    "main_process_port": "master_port",
    "elastic": "elastic_training",
    "restart": "max_restarts",
    "restarts": "max_restarts",
}
"""What options of srun, mpirun and accelerate, and words near to ours, are called in dsrun."""

IDLE = {
    "start_method": "workers are always separate programs",
    "event_log_handler": "--report_file FILE writes a report on the end of the job",
}
"""Options that are accepted and have no effect, each with a reason or an alternative."""

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
"""Options by which a command line is known to be written for torchrun."""
HOSTS = frozenset({"host", "hostfile", "host_discovery_script", "watch_hostfile"})
"""Options that name hosts; torchrun has none."""

PET = frozenset(
    {
        *("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf"),
        *("standalone", "max_restarts", "monitor_interval", "start_method", "event_log_handler"),
        *("role", "module", "no_python", "run_path", "log_dir", "redirects", "tee"),
        *("local_ranks_filter", "master_addr", "master_port", "local_addr", "signals_to_handle"),
        *("shutdown_timeout", "virtual_local_rank"),
    }
)
"""Options that torchrun reads from PET_<NAME> (torch 2.13, `torch/distributed/run.py`).

PET_NODE_RANK is left out: `resources.cluster_environment` reads it, as it identifies the node.
"""

TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
"""The variable with torchrun's template of the prefix of output lines."""


def prefix_of(template: str) -> str:
    """Return the format for --prefix that equals a template of torchrun.

    The template is a `string.Template` with role_name, local_rank and rank (torch 2.13,
    `local_elastic_agent.py`); other names in it are left unchanged.
    """
    from string import Template

    fields = {"role_name": "role", "local_rank": "local_rank", "rank": "rank"}
    # Braces in the template are plain text, so fields are marked until braces are doubled.
    marked = {name: f"\1{field}\2" for name, field in fields.items()}
    text = Template(template.replace("\1", "").replace("\2", "")).safe_substitute(marked)
    return text.replace("{", "{{").replace("}", "}}").replace("\1", "{").replace("\2", "}")
