"""The help of the options about the program that the workers run, and its environment."""

from __future__ import annotations

from .description import IGNORED, Description

OPTIONS = {
    "module": Description("Run SCRIPT as a Python module: python -m SCRIPT."),
    "no_python": Description(
        "Run SCRIPT as an executable, without Python. It is passed --local_rank=N as well unless"
        " --no_local_rank is given."
    ),
    "run_path": Description(IGNORED.format("torchrun")),
    "python": Description(
        "Python interpreter on the nodes, version 3.10 or newer, for node launchers and workers.",
        default="the interpreter that runs dsrun; for workers, the one that --venv_script puts"
        " first on PATH",
    ),
    "workdir": Description(
        "Working directory of the workers. It must exist on every node.",
        default="the current directory",
    ),
    "sync": Description(
        "Copy the folder DIR, which contains the workers' folder, to the nodes that do not share"
        " it, except files that match .gitignore or .dsrunignore. Only changes since the last time"
        " are sent. The workers run in the copy, which is kept for later jobs.",
        default="nothing is copied",
    ),
    "sync_limit": Description("The most that --sync copies to a node: 500MB, 2GB, 1.5GiB."),
    "local_rank": Description(
        "Pass the local rank to the script although options of torchrun are used, with a dash as"
        " torch.distributed.launch does. Without them, --local_rank=N is passed anyway."
    ),
    "no_local_rank": Description(
        "Do not pass --local_rank=N to the script; LOCAL_RANK is set in any case. Implied by"
        " --nproc_per_node, --nnodes, --standalone and --rdzv_*, as torchrun passes none."
    ),
    "start_method": Description(
        IGNORED.format("torchrun") + " Workers are always separate programs.", default="none"
    ),
    "venv_script": Description(
        "Shell script that every node sources with bash before it starts the workers, such as"
        " venv/bin/activate.",
        default="none",
    ),
    "preload": Description(
        "Import these modules once on each node, and fork the workers from that process:"
        " torch,torch._dynamo. Not with --no_python.",
        default="every worker does its own imports",
    ),
    "role": Description("Value of ROLE_NAME in the environment of the workers."),
    "shard_queue": Description(
        "Serve shards of the training data to the workers, which take them with"
        " dsrun.accelerator.shards.ShardQueue."
    ),
    "virtual_local_rank": Description(
        "Show each worker only its own device, and set LOCAL_RANK to 0 for all of them."
    ),
}

ENVIRONMENT = {
    "export": Description(
        "Send this variable to the nodes, with VALUE or else with its current value. Repeatable."
        " Variables with well-known prefixes (NCCL_, OMP_, HF_, ...) are sent without it unless"
        " their names look like secrets; --dry_run lists them.",
        default="none",
    ),
    "env_file": Description(
        "Send the variables of FILE, one NAME=VALUE per line. Repeatable. FILE is read after"
        " .deepspeed_env and .dsrun_env of the home and the current directory.",
        default="none",
    ),
}
