"""The help of the options that say how the nodes are started."""

from __future__ import annotations

from .description import IGNORED, Description


def _launchers() -> tuple[str, ...]:
    from ...backends import choosable

    return ("auto", *choosable())


def _launcher() -> str:
    from ...common.wording import either

    return (
        f"How the nodes are started: {either(_launchers())}. auto is slurm inside a Slurm job,"
        " local if this machine is the only host, else the first of ssh, openssh and pdsh that is"
        " installed."
    )


OPTIONS = {
    "launcher": Description(
        _launcher,
        values=_launchers,
    ),
    "launcher_args": Description(
        "Further arguments for the program of the launcher (ssh, pdsh, mpirun, srun, ...), as one"
        " string.",
        default="none",
    ),
    "launcher_path": Description(
        "Path of the launcher's program, or of the directory that contains it.",
        default="the program found on PATH",
    ),
    "rank_per_task": Description(
        "MPI and Slurm: start one task per rank instead of one per node, for scripts that use MPI"
        " themselves."
    ),
    "ssh_port": Description(
        "Port of sshd on hosts for which the list of hosts gives no port.",
        default="from the ssh configuration, else 22",
    ),
    "accept_new_host_keys": Description(
        "Add unknown host keys to known_hosts. A host key that has changed is refused in any case."
    ),
    "force_multi": Description("Reach this machine over the launcher, like any other host."),
    "no_ssh": Description(
        "Start no other node: the same command is run on every node, each with its --node_rank."
    ),
    "node_rank": Description(
        "With --no_ssh: rank of this node, 0 to N-1 for N nodes.",
        default="from the variables of Slurm, an MPI launcher, Kubeflow or an indexed Job",
    ),
    "no_ssh_check": Description(IGNORED.format("DeepSpeed") + " All hosts are checked at once."),
    "master_addr": Description(
        "Address of node 0 for the workers (MASTER_ADDR).",
        default="the first address of node 0 that all nodes can reach",
    ),
    "master_port": Description(
        "Port of node 0 for the workers (MASTER_PORT). 0 is any free port.",
        default="a free port; 29500 with --no_ssh",
    ),
    "control_port": Description(
        "Port on which dsrun accepts connections of node launchers (pdsh, MPI, Slurm, --no_ssh).",
        default="a free port; --master_port + 1 with --no_ssh",
    ),
    "token_file": Description(
        "With --no_ssh: file of mode 0600 that contains the secret shared by all nodes.",
        default="the variable DSRUN_TOKEN",
    ),
    "rdzv_backend": Description(
        "How the nodes agree on ranks: static is dsrun's own way. c10d, etcd, etcd-v2 or a plugin"
        " is torch's rendezvous: the same command is run on every node, and some nodes may run"
        " torchrun.",
        values=("static", "c10d", "etcd", "etcd-v2"),
    ),
    "rdzv_endpoint": Description(
        "Where torch's rendezvous is. With static: address and port for --master_addr and"
        " --master_port.",
        default="none",
    ),
    "rdzv_id": Description(
        "Name of the job at torch's rendezvous. Workers see it as TORCHELASTIC_RUN_ID.",
        default="the id of the job; with torch's rendezvous, none",
    ),
    "rdzv_conf": Description(
        "Settings of the rendezvous, NAME=VALUE,... such as join_timeout=600 (in seconds). With"
        " static, timeout=600 is --start_timeout 600.",
        default="none",
    ),
    "local_addr": Description(
        "Address of this node for the others, with --no_ssh or torch's rendezvous.",
        default="found automatically",
    ),
    "connect_timeout": Description("Time limit for connecting to a host."),
    "start_timeout": Description("Time limit until all nodes are ready to start their workers."),
    "dry_run": Description(
        "Print the plan (hosts, ranks, variables, policies, commands) and start nothing."
    ),
    "json": Description("With --dry_run: print the plan as one JSON object."),
}
