"""The help of the options about failures and stopping."""

from __future__ import annotations

from .description import Description

OPTIONS = {
    "grace": Description(
        "Time between the stop signal and SIGKILL, for all ranks on all nodes at once."
    ),
    "heartbeat_timeout": Description(
        "Time without a message after which a node, or dsrun itself, is considered lost."
    ),
    "graceful_term_ok": Description(
        "Exit with 0 if all ranks exit with 0 after a stop signal, instead of 128+N."
    ),
    "requeue_on": Description(
        "Slurm: requeue the job if it ends with one of these exit codes: 75,143.", default="never"
    ),
    "no_requeue_code": Description(
        "Exit code of a job that has failed and would fail again, such as by an error in its"
        " script: it is not requeued by --requeue_on, and a batch system can be told not to.",
        default="that of the failure",
    ),
    "signals_to_handle": Description(
        "Signals to dsrun that end the job. SIGQUIT (Ctrl-\\) prints which rank runs where, and its"
        " stack, unless it is one of them."
    ),
    "monitor_interval": Description(
        "With torch's rendezvous: how often torch's agent looks at the workers."
    ),
    "allow_background": Description(
        "Do not stop processes that the workers leave behind when all of them exit with 0."
    ),
}
