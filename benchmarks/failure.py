"""Time how soon the runner ends and all hosts are clean after a rank exits with 7, or a kill -9.

    python benchmarks/failure.py [--rounds 5] [--deepspeed_hosts]
    python benchmarks/failure.py --before CHECKOUT      this dsrun and another, in turns, no others

The job runs on four virtual hosts with two workers each (this needs root); for torchrun and
deepspeed, on one with two. A host is clean when no process of the job is left on it, connections
included. `inf` means "not within 20 s"; the remaining processes are then killed. With
--deepspeed_hosts, deepspeed also runs on the four hosts, over pdsh; its other workers keep running
after a failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import (
    HOSTFILE,
    SCRIPT,
    Job,
    dsrun,
    node_launcher,
    runner,
    ssh_client,
    started,
)
from benchmarks.measure import CHECKOUT, DSRUN, Figures, bar, take_turns
from benchmarks.peers import python_peer, system_peer
from tests.cluster.hosts import Cluster

HOSTS, A_HOST = 4, 2
TWO = f"{A_HOST}"
BASE = "dsrun ssh, 4 hosts"

# The ssh client of pdsh is missing: it carries no control line, so the job continues without it.
VICTIMS: dict[str, tuple[str, Callable[[Job], int]]] = {
    "ssh, runner": ("ssh", runner),
    "openssh, runner": ("openssh", runner),
    "pdsh, runner": ("pdsh", runner),
    "ssh, node launcher": ("ssh", node_launcher),
    "openssh, node launcher": ("openssh", node_launcher),
    "pdsh, node launcher": ("pdsh", node_launcher),
    "openssh, ssh client": ("openssh", ssh_client),
}


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time from a failure to clean hosts.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deepspeed_hosts", action="store_true", help="also deepspeed over pdsh")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    with Cluster(HOSTS, shared=[CHECKOUT, *filter(None, [options.before])]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile(A_HOST))
        if options.before:
            before = {"before, 4 hosts": dsrun("ssh", checkout=options.before)}
            failures(cluster, options.rounds, {BASE: dsrun("ssh")} | before)
            return
        commands = on_hosts(cluster, options.deepspeed_hosts) | on_one_host()
        failures(cluster, options.rounds, commands)
        kills(cluster, options.rounds)


def failures(cluster: Cluster, rounds: int, commands: dict[str, list[str]]) -> None:
    """Time the end of jobs in which a rank exits with 7."""
    clean: dict[str, list[float]] = {name: [] for name in commands}
    codes: dict[str, int | None] = {}

    def measure(name: str, command: list[str]) -> float:
        workers = A_HOST * (HOSTS if name.endswith("4 hosts") else 1)
        with started(cluster, command, workers) as job:
            ended, cleaned, codes[name] = job.fail()
        clean[name].append(cleaned)
        return ended

    ended = take_turns({name: partial(measure, name, c) for name, c in commands.items()}, rounds)
    print(ended.table("exit 7 to the runner's end", BASE))
    print(Figures(clean).table("exit 7 to clean hosts", BASE))
    print("exit codes:", ", ".join(f"{name}: {code}" for name, code in codes.items()))
    bar(f"exit 7 to clean hosts, {BASE}, s", Figures(clean).median(BASE), 0.3)
    bar(f"exit 7 reported as {codes[BASE]}, off by", abs((codes[BASE] or 0) - 7), 0)


def kills(cluster: Cluster, rounds: int) -> None:
    """Time the end of jobs in which a process of dsrun is killed."""

    def measure(launcher: str, victim: Callable[[Job], int]) -> float:
        with started(cluster, dsrun(launcher), HOSTS * A_HOST) as job:
            return job.kill(victim(job))

    figures = take_turns({name: partial(measure, *case) for name, case in VICTIMS.items()}, rounds)
    print(figures.table("kill -9 to clean hosts", "ssh, runner"))
    for name in VICTIMS:
        bar(f"kill -9 to clean hosts, {name}, s", figures.median(name), 1.0)


def on_hosts(cluster: Cluster, deepspeed_too: bool) -> dict[str, list[str]]:
    """Return commands for the four hosts, without the script's arguments."""
    found = {BASE: dsrun("ssh")}
    if mpirun := system_peer("mpirun"):
        hosts = ",".join(f"{name}:{TWO}" for name in cluster.names)
        network = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "plm_rsh_agent", "ssh"]
        command = [mpirun, "--allow-run-as-root", "-host", hosts, *network, sys.executable, SCRIPT]
        found["mpirun, 4 hosts"] = command
    if deepspeed_too:
        where = ["--hostfile", HOSTFILE, "--no_local_rank"]
        found["deepspeed, 4 hosts"] = [python_peer("deepspeed"), *where, SCRIPT]
    return found


def on_one_host() -> dict[str, list[str]]:
    """Return commands for the login host alone, without the script's arguments."""
    two = ["--num_gpus", TWO, "--no_local_rank", SCRIPT]
    return {
        "dsrun, 1 host": [*DSRUN, "--launcher", "local", *two],
        "torchrun, 1 host": [python_peer("torchrun"), "--nproc_per_node", TWO, SCRIPT],
        "deepspeed, 1 host": [python_peer("deepspeed"), *two],
    }


if __name__ == "__main__":
    main()
