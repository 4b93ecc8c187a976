"""Measure binding on a large machine of 256 cores with two threads each: read its sysfs and plan.

    python benchmarks/binding.py [--rounds 51] [--workers 8]

The sysfs tree is an ordinary folder of files. The script also measures how much time binding adds
to a launch on this machine, without a memory policy (a single affinity call) and with one (numactl
is tried once).
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dsrun.launcher.features.binding import node_apply as apply
from dsrun.launcher.features.binding import node_numactl as numactl
from dsrun.launcher.features.binding import node_plan as binding
from dsrun.launcher.features.binding.node_topology import Topology, read_topology
from dsrun.launcher.specs.policies import BindingPolicy

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import Measure, bar, take_turns
from tests.support.machines import build, large, status

CORE = BindingPolicy("core")


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Binding on a large machine.")
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--workers", type=int, default=8)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        root, proc = build(Path(folder, "sys"), large()), status(Path(folder, "proc"), large())
        read = partial(read_topology, root, large().cpus, proc)
        figures = take_turns(measures(read, options.workers), options.rounds)
    print(figures.table("binding", "reading", "ms"))
    bar("planning with devices, ms", figures.median("planning, devices"), 5)
    together = figures.median("reading") + figures.median("planning, devices")
    bar("reading and planning, ms", together, 5)
    bar("bound() for 2 workers here, ms", figures.median("bound here"), 10)


def measures(read: partial[Topology], workers: int) -> dict[str, Measure]:
    """Return the operations to time; each returns milliseconds."""
    topology = read()
    nodes = sorted({core.node for core in topology.cores})
    seats = [nodes[worker * len(nodes) // workers] for worker in range(workers)]
    timed: dict[str, Callable[[], object]] = {
        "reading": read,
        "planning, devices": partial(plan, topology, seats),
        "planning, no devices": partial(plan, topology, [None] * workers),
        "planning, uneven": partial(plan, topology, [None] * 37),
        "bound here": partial(apply.bound, CORE, [None] * 2, _nothing),
    }
    if tool := shutil.which("numactl"):
        one = binding.WorkerShare(tuple(os.sched_getaffinity(0)), 1, (0,), "bind")
        timed["trying numactl"] = partial(numactl.works, one, tool)
    return {name: partial(milliseconds, call) for name, call in timed.items()}


def plan(topology: Topology, seats: Sequence[int | None]) -> binding.BindingPlan:
    return binding.plan(topology, seats, CORE)


def milliseconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1e3


def _nothing(line: str) -> None:
    """Record a note."""


if __name__ == "__main__":
    main()
