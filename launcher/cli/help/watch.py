"""The help of the options about what is watched while a job runs."""

from __future__ import annotations

from .description import Description

OPTIONS = {
    "debug": Description(
        "These ranks, such as 0,3-5 or all, start under debugpy, and wait for an editor before the"
        " first line of their program: dsrun prints a port of this machine for each of them.",
        default="none",
    ),
    "no_debug_wait": Description(
        "The ranks of --debug do not wait: an editor may connect at any time."
    ),
    "debug_file": Description(
        "Write a configuration for each rank of --debug to this launch.json, which is usually"
        " .vscode/launch.json. Others in it are kept.",
        default="printed",
    ),
    "hang_timeout": Description(
        "A job hangs if a rank that others wait for has done nothing for this long: no CPU work, no"
        " input or output, no step in its code. 0 switches hang detection off."
    ),
    "warn_slow": Description(
        "Warn about a rank, a host or a network link that slows down all others, and say why: its"
        " CPU quota, other processes on its CPUs, a disk, or its share of the work."
    ),
    "on_hang": Description(
        "After the line that reports a hang: do nothing else, end the job with exit code 77, or"
        " begin another round of a job with --max_restarts."
    ),
    "expect": Description(
        "Require a line of output that matches this regular expression: see --within, --every and"
        " --on_missing.",
        default="none",
    ),
    "within": Description(
        "Time from the start of the workers to the first line that matches --expect. 0: the same as"
        " --every."
    ),
    "every": Description("Time from one line that matches --expect to the next. 0: no limit."),
    "on_missing": Description(
        "After the line that reports that such a line is missing: do nothing else, end the job with"
        " exit code 77, or begin another round of a job with --max_restarts."
    ),
    "rules": Description(
        "A TOML file with any number of such rules, also about numbers in the lines: a loss must be"
        " finite, or fall.",
        default="none",
    ),
    "no_worker_hook": Description(
        "Run nothing in workers before their own program. By default those that run Python"
        " prepare to report where they are in their code: faulthandler reports crashes, and answers"
        " a signal; torch's flight recorder provides the collectives of each rank."
    ),
    "metrics_file": Description(
        "Write metrics of the job to FILE every 5 seconds, in the text format of Prometheus; a"
        " collector such as node_exporter reads it.",
        default="none",
    ),
    "on_event": Description(
        "Shell command that is run on this machine, in the current folder, when the job starts,"
        " fails, restarts, loses a node, hangs or ends. It gets the event as JSON on its standard"
        " input.",
        default="none",
    ),
}
