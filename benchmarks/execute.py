"""Time a command on all hosts, from its start until every host has printed its name.

    python benchmarks/execute.py                        hostname on 64 hosts
    python benchmarks/execute.py --hosts 4 --rounds 9

The hosts are the virtual ones of `tests/cluster` (this needs root). The fan-out of pdsh and clush
is raised to the number of hosts. On a hold, the nodes are connected before the measurement starts.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, Measure, bar, command_time, take_turns, tell
from benchmarks.peers import clush, system_peer
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

BIN = CHECKOUT / "bin"
HOSTFILE = "/run/hostfile"
NAME = "execute"
BASE, HELD = "dsrun-exec", "dsrun-exec --on"


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time a command on all hosts.")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with Cluster(options.hosts, shared=[CHECKOUT]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile(1))
        env = {**user_environment(), "PYTHONUNBUFFERED": "1"}
        measures = at_login(cluster, commands(options.hosts), env)
        with held(cluster, env):
            figures = take_turns(measures, options.rounds)
    print(figures.table(f"hostname on {options.hosts} hosts", BASE))
    for peer in figures.values.keys() - {BASE, HELD}:
        bar(f"{BASE} to {peer}", figures.ratio(BASE, peer), 1.0)
    bar("on a hold, seconds", figures.median(HELD), 0.5)


def commands(hosts: int) -> dict[str, list[str]]:
    """Return the commands that a user would type, by contender."""
    names = ",".join(f"n{number}" for number in range(1, hosts + 1))
    ours = [sys.executable, str(BIN / "dsrun-exec")]
    found = {
        BASE: [*ours, "-H", HOSTFILE, "hostname"],
        HELD: [*ours, "--on", NAME, "hostname"],
        "clush": [clush(), "-f", f"{hosts}", "-w", names, "hostname"],
    }
    if pdsh := system_peer("pdsh"):
        found["pdsh"] = [pdsh, "-R", "ssh", "-f", f"{hosts}", "-w", names, "hostname"]
    return found


def at_login(
    cluster: Cluster, typed: dict[str, list[str]], env: dict[str, str]
) -> dict[str, Measure]:
    """Return a timer for each command, run on the cluster's login host."""
    last = f"n{len(cluster.hosts)}: n{len(cluster.hosts)}\n"
    return {
        name: partial(command_time, cluster.login.argv(command, CHECKOUT), last, 1, env=env)
        for name, command in typed.items()
    }


@contextmanager
def held(cluster: Cluster, env: dict[str, str]) -> Iterator[None]:
    """Hold all hosts for the `with` block."""

    def hold(*words: str) -> None:
        command = [sys.executable, str(BIN / "dsrun-hold"), *words]
        subprocess.run(cluster.login.argv(command, CHECKOUT), env=env, check=True)

    tell("holding the hosts")
    hold("-H", HOSTFILE, "--name", NAME, "--num_gpus", "1", "--detach")
    try:
        yield
    finally:
        hold("--release", NAME)


if __name__ == "__main__":
    main()
