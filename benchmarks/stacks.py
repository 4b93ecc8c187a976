"""Time `dsrun-job stacks` for 8 ranks on four hosts, each with two child processes.

    python benchmarks/stacks.py
    python benchmarks/stacks.py --hosts 16 --slots 8

The hosts are the virtual ones of `tests/cluster` (this needs root). All of them share the cores of
this machine, and each rank consists of three Python processes with an extra thread each.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import CHECKOUT, DSRUN, Unfit, bar, take_turns
from tests.cluster.command import Running
from tests.cluster.hosts import Cluster
from tests.cluster.machines import user_environment

HOSTFILE = "/run/hostfile"
LIMIT = 1.0
"""The limit in seconds for 8 ranks on four hosts."""

WORKER = """
import os, threading, time

for _ in range(2):
    if not os.fork():
        break
else:
    print("up", flush=True)
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
time.sleep(1000)
"""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time dsrun-job stacks.")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    with Cluster(options.hosts, shared=[CHECKOUT]) as cluster:
        measure(cluster, options.hosts * options.slots, options.slots, options.rounds)


def measure(cluster: Cluster, ranks: int, slots: int, rounds: int) -> None:
    """Print the time from the command to its end."""
    cluster.path(HOSTFILE).write_text(cluster.hostfile(slots))
    script = cluster.login.root / "tmp" / "wait.py"
    script.write_text(WORKER)
    for host in cluster.hosts:
        (host.root / "tmp" / "wait.py").write_text(WORKER)
    command = [*DSRUN, "-H", HOSTFILE, "--launcher", "ssh", "/tmp/wait.py"]
    running = Running(cluster.login.popen(command, env=user_environment(), text=False))
    try:
        running.wait_for_output(rf"(?s)(?:\| up.*){{{ranks}}}", 60.0)
        figures = take_turns({"stacks": lambda: asked(cluster, ranks)}, rounds)
    finally:
        running.kill()
    print(figures.table(f"{ranks} ranks", "stacks"))
    bar("stacks of all ranks (s)", figures.median("stacks"), LIMIT)


def asked(cluster: Cluster, ranks: int) -> float:
    """Request the stacks once, and return the seconds this took."""
    began = time.monotonic()
    done = cluster.login.run([DSRUN[0], f"{DSRUN[1]}-job", "stacks", "--json"], timeout=60.0)
    taken = time.monotonic() - began
    told = json.loads(done.stdout)["ranks"] if not done.returncode else []
    read = sum(bool(one["threads"]) for rank in told for one in rank["processes"])
    if read != 3 * ranks:
        raise Unfit(f"{read} of {3 * ranks} processes were read\n{done.stdout}{done.stderr}")
    return taken


if __name__ == "__main__":
    main()
