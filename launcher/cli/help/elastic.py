"""The help of the options of elastic jobs: restarts, and nodes that come and go."""

from __future__ import annotations

from .description import Description

OPTIONS = {
    "elastic_training": Description(
        "Continue without nodes that are lost until they are back, and restart the workers after a"
        " failure."
    ),
    "min_elastic_nodes": Description(
        "Smallest number of nodes with which the job runs.",
        default="1 with --elastic_training, else all nodes",
    ),
    "max_elastic_nodes": Description(
        "Largest number of nodes that run workers; the others are spares.", default="all nodes"
    ),
    "max_restarts": Description(
        "How often all workers are restarted after a failure, in the whole job (see"
        " --restart_window). A lost node does not count.",
        default="0; 100 with --elastic_training",
    ),
    "elastic_agent": Description(
        "What starts and stops the workers on each node: dsrun itself, or torch's elastic agent"
        " (torch 2.3 or newer).",
        default="dsrun; torch with --logs_specs or torch's --rdzv_backend",
    ),
    "restart_window": Description(
        "Count --max_restarts within this window instead of over the whole job. 0: whole job."
    ),
    "min_uptime": Description(
        "End the job if a worker fails before the workers have run for this long."
    ),
    "no_restart_codes": Description(
        "End the job if a worker fails with one of these exit codes: 2,64.", default="none"
    ),
    "restart_on": Description(
        "Restart the workers only after failures of these classes, and end the job after others:"
        " script, data, node, network, memory, preempted, unknown. A lost node is not a failure.",
        default="all",
    ),
    "stop_without_progress": Description(
        "End the job with exit code 77 after so many failed rounds in a row without a line that"
        " matches --expect, or a new file of --checkpoints. 0: never."
    ),
    "checkpoints": Description(
        "Files that show progress, for --stop_without_progress: a pattern such as 'ckpt/*.pt', as"
        " this machine sees them.",
        default="none",
    ),
    "min_wait": Description(
        "With fewer than --min_elastic_nodes nodes, wait this long for more. 0: end the job."
    ),
    "cool_down": Description(
        "Exclude a node for this long after 3 consecutive failures began on it. 0: never."
    ),
    "gain_delay": Description(
        "Delay a restart that only adds nodes until the workers have run for this long, or one of"
        " them has printed something. 0: no delay."
    ),
    "change_notice": Description(
        "Notify the workers before nodes join or leave, by a signal such as SIGUSR1 or by creating"
        " this file on every node.",
        default="no notice",
        values=("SIGUSR1", "SIGUSR2"),
    ),
    "change_delay": Description("Time between the notice and the restart of the workers."),
    "warm_workers": Description(
        "Preload --warm_modules, as --preload does, and keep a process waiting for each worker of"
        " the next round, so that a restart is faster."
    ),
    "warm_modules": Description("Modules that --warm_workers preloads, beside those of --preload."),
}
