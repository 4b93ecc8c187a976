"""The help of the options that choose hosts and devices."""

from __future__ import annotations

from .description import Description

OPTIONS = {
    "hostfile": Description(
        "Read the hosts from FILE, one per line, in the order of their ranks: 'worker-0 slots=8'."
        " A slot is the place of one worker, usually one device. A host without slots= has one"
        " slot per device.",
        default="the allocation of a scheduler (Slurm, PBS, LSF, ...), else /job/hostfile if it"
        " exists, else this machine",
    ),
    "host": Description(
        "Use these hosts instead of a hostfile: h1:4,h2:0-3. One number after the colon is a count"
        " of slots, anything else a list of slots (0-0 is slot 0 alone).",
        default="see --hostfile",
    ),
    "on": Description(
        "Run on the nodes that dsrun-hold holds under this name, without connecting again."
        " last is the newest hold. Host filters choose among its nodes and slots.",
        default="its own nodes",
    ),
    "on_busy": Description(
        "With --on: if another job uses the same slots, wait until it ends, or refuse to run.",
    ),
    "watch_hostfile": Description(
        "Elastic jobs: read the hostfile every second. Hosts that are added to it join the job,"
        " hosts that are removed from it leave the job."
    ),
    "host_discovery_script": Description(
        "Elastic jobs: run COMMAND every second and use the hosts that it prints, one HOST:SLOTS"
        " per line. Hosts join and leave the job as with --watch_hostfile.",
        default="none",
    ),
    "include": Description(
        "Use only these hosts and slots: worker-0@worker-1:0,2-3. Ranges of names (worker-[0-3]),"
        " patterns (gpu-*) and device ids (worker-0:GPU-8932f937) are accepted.",
        default="all hosts and slots",
    ),
    "exclude": Description(
        "Use all hosts and slots except these. Same syntax as --include.", default="none"
    ),
    "num_nodes": Description("Use the first N hosts.", default="all hosts"),
    "nnodes": Description(
        "torchrun's name for --num_nodes. MIN:MAX makes the job elastic. With --node_rank and"
        " without hosts, the same command is run on every node.",
        default="all hosts",
    ),
    "num_gpus": Description(
        "Use the first N slots of every host. On a host without accelerators: start N workers.",
        default="all slots",
    ),
    "nproc_per_node": Description(
        "torchrun's name for --num_gpus: a number, or auto, gpu, cpu or xpu for one worker per"
        " device.",
        default="all slots",
        values=("auto", "gpu", "cpu", "xpu"),
    ),
    "standalone": Description(
        "Use this machine only; ignore --host, --hostfile and the allocation of a scheduler."
    ),
    "elastic_config": Description(
        "Require that the number of ranks is valid by the elastic batch plan of this DeepSpeed"
        " config (JSON). Elastic jobs use only world sizes of the plan.",
        default="none",
    ),
}
