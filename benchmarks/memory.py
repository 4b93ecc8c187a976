"""Measure resident memory: of a node launcher with its guard, and of the runner with 64 hosts.

    python benchmarks/memory.py [--hosts 64] [--launchers ssh openssh pdsh] [--before CHECKOUT]

The job runs on virtual hosts (this needs root), with one idle worker each. RSS counts a shared page
once for each process that shares it. PSS divides the page among these processes, here across all
virtual hosts, so RSS is closer to the figure on a real host. Peak is the highest RSS so far.
Figures are in MB of 1,000,000 bytes.
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
"""The files and fields in which the kernel reports them (proc(5))."""


def main() -> None:
    """Measure and print the memory."""
    parser = argparse.ArgumentParser(description="Measure the memory of dsrun's own processes.")
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
    """Print the memory of the job's processes, with its limits."""
    node = node_launcher(job)
    guard = parent(node)
    for name, pids in (("runner", [job.runner.pid]), ("node launcher", [node]), ("guard", [guard])):
        print(f"{launcher}, {name:13}", *(f" {kind} {held(kind, *pids):5.1f} MB" for kind in KINDS))
    bar(f"{launcher}: runner, RSS in MB", held("RSS", job.runner.pid), 80)
    bar(f"{launcher}: node launcher with guard, RSS in MB", held("RSS", node, guard), 30)


def held(kind: str, *pids: int) -> float:
    """Return the memory of these processes together, in MB."""
    file, name = KINDS[kind]
    return sum(kilobytes(Path(f"/proc/{pid}/{file}").read_text(), name) for pid in pids) / 1e3


def kilobytes(table: str, name: str) -> float:
    """Return a row's value in kB of 1,000 bytes; the kernel's kB have 1,024."""
    return int(table.partition(f"{name}:")[2].split()[0]) * 1.024


if __name__ == "__main__":
    main()
