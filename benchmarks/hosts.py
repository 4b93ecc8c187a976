"""Time whole runs on several hosts over ssh, with workers that print a line.

    python benchmarks/hosts.py                          4 hosts x 2, then 64 hosts x 1
    python benchmarks/hosts.py --sizes 4x2 --rounds 9
    python benchmarks/hosts.py --before CHECKOUT        this dsrun and another, in turns, no others
    python benchmarks/hosts.py --copies                 hosts that share dsrun's folder, and hosts
                                                        that keep a copy of it

The hosts are the virtual ones of `tests/cluster` (this needs root). Bare pdsh starts the same
workers through a shell and does nothing else. Its fan-out is raised to the number of hosts, as is
deepspeed's. deepspeed is measured on up to --deepspeed_hosts hosts; with 64 a run takes minutes.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import (
    CHECKOUT,
    WORKERS,
    Figures,
    Measure,
    bar,
    command_time,
    dsrun_of,
    take_turns,
)
from benchmarks.peers import python_peer, system_peer
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment

HELLO = str(WORKERS / "hello.py")
HOSTFILE = "/run/hostfile"
BASE = "dsrun ssh"
ALONE = "/tmp/dsrun-alone"
"""A copy of dsrun that only the login host has."""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time workers that print a line on several hosts.")
    parser.add_argument("--sizes", nargs="+", default=["4x2", "64x1"], metavar="HOSTSxWORKERS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--deepspeed_hosts", type=int, default=4, help="the most hosts for deepspeed"
    )
    parser.add_argument("--deepspeed_rounds", type=int, default=2)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    parser.add_argument("--copies", action="store_true", help="compare with hosts without dsrun")
    options = parser.parse_args()
    for size in options.sizes:
        hosts, workers = map(int, size.split("x"))
        if options.before:
            peers = {BASE: over("ssh"), "before": over("ssh", options.before)}
        elif options.copies:
            bare = ["--python", str(Path(sys.base_prefix, "bin", "python3"))]
            here = [sys.executable, f"{ALONE}/bin/dsrun", *over("ssh")[len(dsrun_of(CHECKOUT)) :]]
            peers = {BASE: [*over("ssh")[:-1], *bare, HELLO], "copy": [*here[:-1], *bare, HELLO]}
        else:
            peers = commands(hosts, workers)
            if hosts <= options.deepspeed_hosts:
                peers["deepspeed"] = [python_peer("deepspeed"), "--hostfile", HOSTFILE, HELLO]
        with Cluster(hosts, shared=[CHECKOUT, *filter(None, [options.before])]) as cluster:
            cluster.path(HOSTFILE).write_text(cluster.hostfile(workers))
            if options.copies:
                put_alone(cluster)
            fewer = {"deepspeed": options.deepspeed_rounds}
            measures = at_login(cluster, peers, hosts * workers)
            if options.copies:
                measures["copy"]()  # sends dsrun to the hosts, once
            report(take_turns(measures, options.rounds, fewer), hosts, workers)


def put_alone(cluster: Cluster) -> None:
    """Copy dsrun to a folder that only the login host has."""
    folders = [str(CHECKOUT / name) for name in ("bin", "launcher", "accelerator")]
    cluster.login.run(["mkdir", "-p", ALONE])
    cluster.login.run(["cp", "-a", *folders, ALONE])


def commands(hosts: int, workers: int) -> dict[str, list[str]]:
    """Return the commands that a user would type for the same work, by contender."""
    names = [f"n{number}" for number in range(1, hosts + 1)]
    worker = shlex.join([sys.executable, HELLO])
    found: dict[str, list[str]] = {}
    if pdsh := system_peer("pdsh"):
        remote = f"{worker} & " * workers + "wait"
        found["pdsh"] = [pdsh, "-R", "ssh", "-f", f"{hosts}", "-w", ",".join(names), remote]
    for launcher in ("ssh", "openssh", "pdsh"):
        found[f"dsrun {launcher}"] = over(launcher)
    if mpirun := system_peer("mpirun"):
        where = [
            "-host",
            ",".join(f"{name}:{workers}" for name in names),
            "-npernode",
            f"{workers}",
        ]
        network = ["--mca", "btl_tcp_if_include", "eth0", "--mca", "plm_rsh_agent", "ssh"]
        command = [mpirun, "--allow-run-as-root", *where, *network, sys.executable, HELLO]
        found["mpirun"] = command
    return found


def over(launcher: str, checkout: Path = CHECKOUT) -> list[str]:
    """Return the command line of a checkout's dsrun."""
    return [*dsrun_of(checkout), "-H", HOSTFILE, "--launcher", launcher, HELLO]


def at_login(cluster: Cluster, peers: dict[str, list[str]], workers: int) -> dict[str, Measure]:
    """Return a timer for each command, run on the cluster's login host."""
    env = user_environment()
    return {
        name: partial(
            command_time, cluster.login.argv(command, CHECKOUT), "worker here", workers, env=env
        )
        for name, command in peers.items()
    }


def report(figures: Figures, hosts: int, workers: int) -> None:
    """Print the results for one size, with its limits."""
    print(figures.table(f"{hosts} hosts x {workers}", BASE))
    limits = {"pdsh": 1.0} if hosts < 64 else {"pdsh": 0.8, "mpirun": 0.65}
    for peer, limit in limits.items():
        if peer in figures.values:
            bar(f"{BASE} to {peer}", figures.ratio(BASE, peer), limit)
    if "deepspeed" in figures.values:
        bar(f"deepspeed to {BASE}", figures.ratio("deepspeed", BASE), 12, at_least=True)


if __name__ == "__main__":
    main()
