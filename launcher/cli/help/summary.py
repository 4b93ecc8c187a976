"""The help about dsrun as a whole: usage, examples, exit codes. Pure."""

from __future__ import annotations

TITLE = "start a PyTorch training job on every device of every node"

USAGE = (
    ("[options] SCRIPT [ARGS...]", "run a Python script"),
    ("[options] -m MODULE [ARGS...]", "run a Python module"),
    ("[options] --no_python PROGRAM ...", "run any executable"),
)

PURPOSE = (
    "Start one worker per device on every host and run all workers as one job."
    " Without hosts, use this machine. When a worker fails, stop the others and"
    " exit with its exit code."
)

EXAMPLES = (
    ("dsrun train.py --lr 0.1", "this machine"),
    ("dsrun --host h1:4,h2:4 --dry_run train.py", "plan for two hosts"),
    ("dsrun -H hosts --include 'worker-[0-3]' train.py", "some of the hosts"),
    ("dsrun -H hosts --max_restarts 3 train.py", "restart on failure"),
    ("dsrun -H hosts --no_python --no_local_rank nvidia-smi", "any program"),
)

RULES = (
    "Options come before SCRIPT; everything after SCRIPT is passed to it. Option names may be"
    " written with dashes instead of underscores. Flags, which take no value, are off by default.",
    "An option that takes a list may be repeated: --host n1 --host n2 means --host n1,n2. For"
    " any other option the last value counts, with a warning if the values differ.",
    "DURATION is a number of seconds, or a number with units: 30, 90s, 30m, 2h, 1h30m.",
    "Every option can also be set by a variable: DSRUN_GRACE=60 means --grace 60. torchrun's"
    " options can be set by its PET_* variables. The command line takes precedence over DSRUN_*,"
    " DSRUN_* over PET_*, and PET_* over the configuration files: the project's dsrun.toml,"
    " ~/.config/dsrun/config.toml, /etc/dsrun/config.toml.",
)

EXIT_CODES = (
    ("0", "all workers exited with 0"),
    ("1-255", "exit code of the first worker that failed; 128+N: killed by signal N"),
    ("2", "the command line or a file is not valid; nothing was started"),
    ("69", "a node cannot be used"),
    ("70", "a bug in dsrun"),
    ("74", "standard output cannot be written"),
    ("75", "a node or the runner was lost, or a process could not be killed"),
    ("76", "an elastic job had too few nodes for longer than --min_wait"),
    ("77", "dsrun ended a job that hung or broke a rule"),
    ("126", "a worker could not be started"),
    ("128+N", "stopped by signal N"),
)

REFUSED = "Options of deepspeed and torchrun that are not supported"
