"""The help of the options about output and log files."""

from __future__ import annotations

from .description import IGNORED, Description

OPTIONS = {
    "log_dir": Description(
        "Also write the output of each rank to files on its node: DIR/JOB/rank-0000.out and .err.",
        default="no log files",
    ),
    "redirects": Description(
        "Write these streams to log files only: 0 none, 1 stdout, 2 stderr, 3 both; or by local"
        " rank, 0:1,1:3. Without --log_dir the files are in a private directory among each node's"
        " temporary files.",
        values=("0", "1", "2", "3"),
    ),
    "tee": Description(
        "Write these streams to log files and to the console, with the same values. Takes"
        " precedence over --redirects.",
        values=("0", "1", "2", "3"),
    ),
    "log_layout": Description(
        "How log files are named: dsrun (by global rank) or torchrun"
        " (DIR/ID_JOB_HOST/attempt_N/LOCAL_RANK/stderr.log).",
        default="torchrun if options of torchrun are used without a list of hosts, else dsrun",
    ),
    "logs_specs": Description(
        "What chooses the log files: an entry point of the group torchrun.logs_specs, or default"
        " for dsrun itself."
    ),
    "console_ranks": Description(
        "Show only the output of these global ranks: 0,8-15.", default="all ranks"
    ),
    "local_ranks_filter": Description(
        "Show only the output of these local ranks of each node: 0,1.", default="all ranks"
    ),
    "prefix": Description(
        "Text before every line of output, with any of {host} {rank} {local_rank} {node_rank}"
        " {job} {role}; '' for none."
    ),
    "fold": Description(
        "Print the same line of several ranks once, with all of them in its prefix:"
        " 'n1-n4:0-31| '. A line waits for that at most 0.2 s. Log files are not changed.",
        default="on a terminal, if the prefix has {rank}",
    ),
    "no_fold": Description("Print every line of every rank, also on a terminal."),
    "color": Description(
        "Use colours, and redraw unfinished lines such as progress bars. auto: on a terminal."
    ),
    "stdin": Description("Which worker reads dsrun's standard input."),
    "event_log_handler": Description(
        IGNORED.format("torchrun") + " See --report_file.", default="none"
    ),
    "report_file": Description(
        "Write a report on the end of the job to FILE, as JSON. If its name ends in `.html`, draw a"
        " picture of the job over time instead.",
        default="none",
    ),
    "log_level": Description("Lowest level of dsrun's own messages that are printed."),
    "quiet": Description("Of dsrun's own messages, print only errors."),
}
