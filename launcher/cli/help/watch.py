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
        "A job hangs if a rank, for which others wait, has done nothing for this long: no CPU work,"
        " no input or output, no step in its code. 0 switches hang detection off."
    ),
    "warn_slow": Description(
        "Warn of a rank, a host or a network link for which all others wait, and say why: its CPU"
        " quota, other processes on its CPUs, a disk, or its share of the work."
    ),
    "on_hang": Description(
        "What follows from a hang, after a line that says which rank is where: nothing else, the"
        " end of the job with exit code 77, or another round of a job with --max_restarts."
    ),
    "expect": Description(
        "A line of output that matches this regular expression has to appear: see --within, --every"
        " and --on_missing.",
        default="none",
    ),
    "within": Description(
        "Time from the start of the workers to the first line that matches --expect. 0: as --every."
    ),
    "every": Description("Time from one line that matches --expect to the next. 0: no limit."),
    "on_missing": Description(
        "What follows if such a line is missing, after a line that says so: nothing else, the end"
        " of the job with exit code 77, or another round of a job with --max_restarts."
    ),
    "rules": Description(
        "A TOML file with any number of such rules, also about numbers in the lines: a loss must be"
        " finite, or fall.",
        default="none",
    ),
    "no_worker_hook": Description(
        "Run nothing in workers before their own program. By default those that run Python get"
        " ready to say where they are in their code: faulthandler reports crashes, and answers a"
        " signal; torch's flight recorder can be asked for the collectives of each rank."
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
