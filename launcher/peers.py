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
