"""Options and variables of deepspeed and torchrun that dsrun treats specially. Pure."""

from __future__ import annotations

REFUSED = {
    "autotuning": "run deepspeed itself for autotuning",
    "save_pid": "send signals to dsrun itself, which passes them on to every worker",
    "duplicate_stdout_filters": "search the files of --log_dir, for instance with grep",
    "duplicate_stderr_filters": "search the files of --log_dir, for instance with grep",
}
"""Options that are refused, each with advice."""

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
"""Options that mark a command line as written for torchrun."""
HOSTS = frozenset({"host", "hostfile", "host_discovery_script", "watch_hostfile"})
"""Options that name hosts; torchrun has none."""

TEMPLATE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
"""The variable with torchrun's template for the prefix of output lines."""


def prefix_of(template: str) -> str:
    """Return the format for --prefix that is equivalent to a template of torchrun.

    The template is a `string.Template` with role_name, local_rank and rank (torch 2.13,
    `local_elastic_agent.py`); other names in it are left unchanged.
    """
    from string import Template

    fields = {"role_name": "role", "local_rank": "local_rank", "rank": "rank"}
    # Braces in the template are plain text, so fields are marked until braces are doubled.
    marked = {name: f"\1{field}\2" for name, field in fields.items()}
    text = Template(template.replace("\1", "").replace("\2", "")).safe_substitute(marked)
    return text.replace("{", "{{").replace("}", "}}").replace("\1", "{").replace("\2", "}")
