"""The topics of `dsrun --help TOPIC`: for each a short text, and its options."""

from __future__ import annotations

from ...common.records import NamedTuple
from .rows import groups


class Topic(NamedTuple):
    """One topic of the help.

    Attributes:
        text: paragraphs; one with a leading blank is unchanged.
        options: the names of the options that belong to the topic.
    """

    title: str
    text: tuple[str, ...]
    options: tuple[str, ...]


_GROUPS = groups()

TOPICS = {
    "hosts": Topic(
        "choosing hosts and reaching them",
        (
            "The hosts come from the first of these that applies: --standalone, --host, --hostfile,"
            " a scheduler's allocation, /job/hostfile, this machine. A hostfile has one host"
            " per line, in the order of the ranks:",
            "  worker-0 slots=8\n"
            "  me@worker-[01-16] slots=4 port=2222     # user, range of names, ssh port\n"
            "  worker-x                                # one worker per device",
            "Each host must allow ssh without a password, and have the working directory and Python"
            " at the same paths. This machine needs no ssh. More: docs/hosts.md",
        ),
        (
            *_GROUPS["Hosts and devices"],
            *("launcher", "launcher_args", "ssh_port", "accept_new_host_keys", "force_multi"),
            *("no_ssh", "node_rank", "master_addr", "connect_timeout", "start_timeout"),
        ),
    ),
    "output": Topic(
        "console and log files",
        (
            "All output of the workers is shown, each line prefixed with its host and rank. With"
            " --log_dir it is also written to files on each rank's node:",
            "  dsrun -H hosts --log_dir logs --console_ranks 0 train.py\n"
            "  logs/20261121-100814-343dea/rank-0001.err       # on the node of rank 1",
            "dsrun's own messages begin with 'dsrun: ' and go to standard error."
            " More: docs/environment.md, docs/failures.md",
        ),
        _GROUPS["Output"],
    ),
    "elastic": Topic(
        "restarts, and nodes that come and go",
        (
            "An elastic job restarts all workers from the beginning after a failure, and when a"
            " node is lost or joins; the script loads its last checkpoint. Any of"
            " --elastic_training, --max_restarts, --min_elastic_nodes, --max_elastic_nodes and"
            " --nnodes MIN:MAX makes a job elastic:",
            "  dsrun -H hosts --max_restarts 3 train.py\n"
            "  dsrun -H hosts --elastic_training --min_elastic_nodes 2 train.py",
            "dsrun-job scale changes the number of nodes of a running job. More: docs/elastic.md",
        ),
        (
            *_GROUPS["Elastic jobs"],
            *("nnodes", "watch_hostfile", "host_discovery_script", "elastic_config", "grace"),
            "heartbeat_timeout",
        ),
    ),
    "cores": Topic(
        "binding ranks to cores and memory",
        (
            "Each node binds its own ranks near their devices, within the CPUs that dsrun may"
            " use there. dsrun-topo draws a machine and shows what each rank would be bound to:",
            "  dsrun -H hosts --bind_cores_to_rank --report_bindings train.py\n"
            "  dsrun-topo --num_gpus 8",
            "More: docs/binding.md",
        ),
        _GROUPS["Cores and memory"],
    ),
    "slurm": Topic(
        "Slurm, inside and outside its jobs",
        (
            "Inside sbatch or salloc, dsrun takes hosts and GPUs from the allocation and starts the"
            " nodes with srun. Outside, --launcher slurm asks salloc for an allocation first:",
            "  #SBATCH --nodes=4 --gpus-per-node=8\n"
            "  exec dsrun --requeue_on 75 train.py\n"
            "\n"
            "  dsrun --launcher slurm --num_nodes 2 --num_gpus 8 \\\n"
            "      --launcher_args '-p gpu -t 60' train.py",
            "Signals that Slurm sends reach every worker once. More: docs/engines.md and"
            " examples/slurm.sbatch",
        ),
        (
            *("launcher", "launcher_args", "launcher_path", "num_nodes", "num_gpus", "include"),
            *("rank_per_task", "requeue_on", "signals_to_handle", "grace", "token_file"),
        ),
    ),
}
"""All topics by name."""
