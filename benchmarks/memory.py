"""Resident memory: a node launcher with its guard, and the runner with 64 hosts.

    python benchmarks/memory.py [--hosts 64] [--launchers ssh openssh pdsh] [--before CHECKOUT]

On virtual hosts (this needs root), one idle worker each. RSS counts pages that processes share once
for each of them; PSS divides them by the number of those that share them, the nodes of all hosts
here included; so RSS is what a host of its own would see. Peak is the most RSS that there has been.
Figures are MB of 1,000,000 bytes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import HOSTFILE, Job, dsrun, node_launcher, parent, started
from benchmarks.measure import CHECKOUT, bar
from tests.cluster.hosts import Cluster

KINDS = {
    "RSS": ("smaps_rollup", "Rss"),
    "PSS": ("smaps_rollup", "Pss"),
    "peak": ("status", "VmHWM"),
}
"""Where the kernel tells them (proc(5))."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What dsrun's own processes hold.")
    parser.add_argument("--hosts", type=int, default=64)
    parser.add_argument("--launchers", nargs="+", default=["ssh", "openssh", "pdsh"])
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    others = {"before, ": options.before} if options.before else {}
    with Cluster(options.hosts, shared=[CHECKOUT, *others.values()]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile())
        for launcher in options.launchers:
            for name, checkout in {**others, "": CHECKOUT}.items():
                command = dsrun(launcher, checkout=checkout)
                with started(cluster, command, options.hosts) as job:
                    show(f"{name}{launcher}", job)


def show(launcher: str, job: Job) -> None:
    """Print what the job's processes hold, beside the bars."""
    node = node_launcher(job)
    guard = parent(node)
    for name, pids in (("runner", [job.runner.pid]), ("node launcher", [node]), ("guard", [guard])):
        print(f"{launcher}, {name:13}", *(f" {kind} {held(kind, *pids):5.1f} MB" for kind in KINDS))
    bar(f"{launcher}: runner, RSS in MB", held("RSS", job.runner.pid), 80)
    bar(f"{launcher}: node launcher with guard, RSS in MB", held("RSS", node, guard), 30)


def held(kind: str, *pids: int) -> float:
    """The memory of these processes together, in MB."""
    file, name = KINDS[kind]
    return sum(kilobytes(Path(f"/proc/{pid}/{file}").read_text(), name) for pid in pids) / 1e3


def kilobytes(table: str, name: str) -> float:
    """A row's value; the kernel's kB are 1,024 bytes, these are 1,000."""
    return int(table.partition(f"{name}:")[2].split()[0]) * 1.024


if __name__ == "__main__":
    main()
