"""The output of `dsrun -h`: the options that most people need, a line each. Pure."""

from __future__ import annotations

ESSENTIALS = {
    "Hosts": {
        "hostfile": "read hosts from FILE, one per line: worker-0 slots=8",
        "host": "use these hosts: h1:4,h2:4",
        "include": "use only these hosts and slots: worker-[0-3]:0,1",
        "exclude": "use all hosts and slots except these",
        "num_nodes": "use the first N hosts",
        "num_gpus": "start N workers per host (default: one per device)",
        "on": "run on the nodes that dsrun-hold keeps by this name",
        "launcher": "auto, local, ssh, openssh, pdsh, slurm, openmpi, ...",
    },
    "Program": {
        "workdir": "working directory of the workers (default: this one)",
        "python": "Python interpreter on the nodes",
        "venv_script": "source this shell script on every node first",
        "preload": "import modules once on each node: torch,numpy",
        "export": "send a variable to the nodes (repeatable)",
        "no_local_rank": "do not pass --local_rank=N to SCRIPT",
        "dry_run": "print the plan and start nothing",
    },
    "Output": {
        "log_dir": "also write each rank's output to files in DIR",
        "console_ranks": "show only these ranks: 0,8-15",
        "prefix": "text before each line (default: '{host}:{rank}| ')",
        "report_file": "write a JSON report when the job ends",
        "quiet": "print only dsrun's own errors",
    },
    "Failures": {
        "grace": "time from the stop signal to SIGKILL (default: 30 s)",
        "max_restarts": "restart all workers up to N times (default: 0)",
        "elastic_training": "continue without lost nodes until they return",
    },
    "Cores": {
        "bind_cores_to_rank": "bind each rank to cores near its device",
    },
}
"""Options by heading; the lines fit in 80 columns."""

NOTE = (
    "DURATION is a number of seconds, or has units: 90s, 30m, 2h, 1h30m. Every option can also be"
    " set by a variable: DSRUN_GRACE=60 means --grace 60."
)

EXAMPLES = (
    "dsrun train.py --lr 0.1",
    "dsrun -H hosts --include 'worker-[0-3]' train.py",
)
