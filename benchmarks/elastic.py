"""Measure the extra cost of an elastic job over a static one: its start, and its memory.

    python benchmarks/elastic.py [--rounds 7] [--before CHECKOUT]

The job runs on two virtual hosts over ssh (this needs root), with one worker each, which imports
nothing. The start is the time from the command until both workers run. Memory is the proportional
set size of all processes of dsrun on the second host, without workers, in MB of 1,000,000 bytes.
With `--elastic_agent torch`, torch's elastic agent is between dsrun and the workers of each host.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import HOSTFILE, SCRIPT, Job, dsrun, started
from benchmarks.measure import CHECKOUT, bar, take_turns
from benchmarks.memory import held
from tests.cluster.hosts import Cluster

HOSTS = 2
STATIC, ELASTIC, TORCH = "static", "elastic", "elastic, torch's agent"


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Measure the extra cost of an elastic job.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    elastic = ("--max_restarts", "1")
    commands = {
        STATIC: dsrun("ssh"),
        ELASTIC: dsrun("ssh", *elastic),
        TORCH: dsrun("ssh", *elastic, "--elastic_agent", "torch"),
    }
    if options.before:
        commands["before, static"] = dsrun("ssh", checkout=options.before)
        commands["before, elastic"] = dsrun("ssh", *elastic, checkout=options.before)
    memory: dict[str, list[float]] = {name: [] for name in commands}
    with Cluster(HOSTS, shared=[CHECKOUT, *filter(None, [options.before])]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile())

        def measure(name: str) -> float:
            began = time.monotonic()
            with started(cluster, commands[name], HOSTS) as job:
                taken = job.when_up(HOSTS) - began
                memory[name].append(of_second_host(job))
            return taken

        figures = take_turns({name: partial(measure, name) for name in commands}, options.rounds)
    print(figures.table("command to the last worker's start", STATIC))
    bar("extra start time of an elastic job, s", figures.excess(ELASTIC, STATIC), 0.1)
    for name, values in memory.items():
        print(f"{name:24} {median(values):6.1f} MB on a host")


def of_second_host(job: Job) -> float:
    """Return the memory of dsrun's processes on the second host, in MB."""
    pids = [p.pid for p in job.processes if p.host == "n2" and SCRIPT not in p.argv]
    return held("PSS", *pids)


if __name__ == "__main__":
    main()
