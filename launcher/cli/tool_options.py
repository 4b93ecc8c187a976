"""The options that only commands other than dsrun have: a table for each command."""

from __future__ import annotations

from .option import option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .option import Option

OWN: dict[str, dict[str, Option]] = {
    "dsrun-job": {
        "follow": option(False, "logs: keep printing new output.", also=("-f",)),
        "ranks": option(
            "",
            "logs, stacks: only these ranks: 0,8-15.",
            "RANKS",
            separator=",",
            unset="all",
            also=("rank",),
        ),
        "role": option("", "Only this role of the job.", "NAME", unset="all"),
        "all_threads": option(False, "stacks: all threads and processes, with all frames."),
        "native": option(False, "stacks: C and C++ frames, too; takes seconds."),
        "save": option(False, "stacks: also write files next to the ranks' logs."),
        "ended": option(False, "list: show detached jobs that have ended."),
        "html": option("", "report: draw it in FILE.", "FILE", unset="none", file="written"),
        "all": option(False, "forget: all jobs that have ended."),
        "json": option(False, "Print JSON."),
        "now": option(False, "kill: skip the grace period."),
    },
    "dsrun-hold": {
        "name": option(
            "", "Name of the hold, for --on and --release.", "NAME", unset="a short name"
        ),
        "idle_timeout": option(
            1800.0, "Release the nodes after this time without a job; 0: never.", unset="30m"
        ),
        "detach": option(
            False, "Return once the nodes are ready; the hold goes on, even after a logout."
        ),
        "release": option("", "Stop this hold and its jobs.", "NAME", unset="none", offers="holds"),
    },
    "dsrun-exec": {
        "shell": option(None, "Run this line with sh on each host.", "LINE", unset="COMMAND ARGS"),
        "copy": option(False, "Copy files and folders to all hosts."),
        "fetch": option(False, "Fetch files and folders, into one folder per host."),
        "to": option("", "Where the files go.", "DIR", unset="the same path; --fetch: here"),
        "stdin": option(
            "none",
            "Read input on all, none or one host.",
            "WHO",
            values=("all", "none"),
            offers="hosts",
        ),
        "timeout": option(0.0, "Stop the command after this time.", unset="never"),
        "no_fold": option(False, "Print lines as they arrive, with their host."),
        "json": option(False, "Print output and exit code of each host as JSON."),
    },
    "dsrun-check": {
        "compare": option(False, "Print what differs between nodes instead of the table."),
        "report": option(
            False, "Print everything known about the nodes, torch and DeepSpeed included."
        ),
        "full": option(
            False, "Also measure cores, memory, disks, devices, the network and collectives."
        ),
        "svg": option(
            "",
            "With --full: draw the matrices in this file.",
            "FILE",
            unset="none",
            file="written",
        ),
        "promises": option(
            False,
            "Prove on these nodes what dsrun promises: small jobs with stand-in workers, each with"
            " a fault. Name rows to choose some: exit,sigkill.",
        ),
        "dry_run": option(False, "With --promises: print the rows, and start nothing."),
        "json": option(False, "Print everything as JSON."),
    },
}
"""The options by the name of the command; `Option.tools` names those shared with dsrun."""
