"""Compare jobs on held nodes with fresh launches, and measure the memory that many leave in a hold.

    python benchmarks/held.py                          everything
    python benchmarks/held.py --only hello --sizes 4x2
    python benchmarks/held.py --only memory --runs 50

`hello` times workers that print a line, from the command to its end, on 4x2 and 64x1 hosts.
`forked` workers come from a process on each node that has already started Python (`--preload`).
`bare` is the same number of processes started by a shell, a lower bound for every launcher that
starts new processes. `step` times the command up to the first step of a DDP training on two hosts x
2, whose nodes preload torch, and compares it with torchrun with four workers on one host. `memory`
runs 200 jobs on one hold. The hosts are the virtual ones of `tests/cluster` (this needs root),
reached over ssh.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import (
    CHECKOUT,
    DSRUN,
    WORKERS,
    Unfit,
    bar,
    command_time,
    take_turns,
)
from tests.cluster.hosts import Cluster
from tests.cluster.machines import Machine, user_environment

HELLO, STEP = str(WORKERS / "hello.py"), str(WORKERS / "first_step.py")
HOSTFILE, NAME = "/run/hostfile", "held"
HOLD = (sys.executable, str(CHECKOUT / "bin" / "dsrun-hold"))
TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
ON = (*DSRUN, f"--on={NAME}", "--no_local_rank")


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Measure jobs on held nodes.")
    parser.add_argument("--only", choices=("hello", "step", "memory"))
    parser.add_argument("--sizes", nargs="+", default=["4x2", "64x1"], metavar="HOSTSxWORKERS")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=200, help="jobs on one hold, for `memory`")
    options = parser.parse_args()
    if options.only in {None, "hello"}:
        for size in options.sizes:
            hosts, workers = map(int, size.split("x"))
            hello(hosts, workers, options.rounds)
    if options.only in {None, "step"}:
        step(options.rounds)
    if options.only in {None, "memory"}:
        memory(options.runs)


@contextmanager
def held(hosts: int, workers: int, *options: str) -> Iterator[tuple[Cluster, int]]:
    """Provide a cluster whose hosts are held, and the hold's process id.

    Raises:
        Unfit: they cannot be held.
    """
    with Cluster(hosts, shared=[CHECKOUT]) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile(workers))
        command = [*HOLD, "--name", NAME, "-H", HOSTFILE, "--launcher", "ssh", *options]
        hold = cluster.login.popen(command)
        assert hold.stderr is not None
        line = hold.stderr.readline()
        if "holding" not in line:
            raise Unfit(f"{command}: {line}{hold.communicate()[1]}")
        try:
            yield cluster, hold.pid
        finally:
            cluster.login.run([*HOLD, "--release", NAME])
            hold.communicate()


def hello(hosts: int, workers: int, rounds: int) -> None:
    """Time workers that print a line: fresh, on held nodes, and forked there by a preloader."""
    # In their own sessions, like workers: a busy kernel divides its time between sessions.
    worker = shlex.join(["setsid", sys.executable, HELLO])
    commands = {
        "bare": ["sh", "-c", f"{f'{worker} & ' * hosts * workers}wait"],
        "fresh": [*DSRUN, "-H", HOSTFILE, "--launcher", "ssh", "--no_local_rank", HELLO],
        "held": [*ON, HELLO],
        "held, forked": [*ON, "--preload", "json", HELLO],
    }
    with held(hosts, workers) as (cluster, _):
        measures = {
            name: partial(
                command_time,
                cluster.login.argv(command, CHECKOUT),
                "worker here",
                hosts * workers,
                env=user_environment(),
            )
            for name, command in commands.items()
        }
        measures["held, forked"]()  # starts the preloaders
        figures = take_turns(measures, rounds)
    print(figures.table(f"{hosts} hosts x {workers}", "fresh"))
    print(f"held to bare: {figures.ratio('held', 'bare'):.2f}")
    if hosts < 64:
        bar("held, forked, in seconds", figures.median("held, forked"), 0.15)
    else:
        bar("held, forked to fresh", figures.ratio("held, forked", "fresh"), 0.2)


def step(rounds: int) -> None:
    """Time the first step of a training; the first run on the hold does not count."""
    with held(2, 2, "--preload", "torch,torch._dynamo") as (cluster, _):
        first_step(cluster.login, [*ON, STEP], 4)
        ours = partial(first_step, cluster.login, [*ON, STEP], 4)
        torchs = [*TORCHRUN, "--nproc_per_node", "4", STEP]
        theirs = partial(first_step, cluster.host("n1"), torchs, 4)
        figures = take_turns({"held": ours, "torchrun": theirs}, rounds)
    print(figures.table("to the first step", "torchrun"))
    bar("held to torchrun", figures.ratio("held", "torchrun"), 0.15)


def first_step(machine: Machine, command: Sequence[str], workers: int) -> float:
    """Return the seconds from the start of a command to the first step of its last worker.

    Raises:
        Unfit: it failed.
    """
    began = time.monotonic()
    done = subprocess.run(
        machine.argv(command, CHECKOUT),
        env=user_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    steps = [float(one) for one in re.findall(r"first step at ([\d.]+)", done.stdout)]
    if done.returncode or len(steps) != workers:
        raise Unfit(f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return max(steps) - began


def memory(runs: int) -> None:
    """Measure a hold's memory before and after many jobs; the first ten do not count."""
    with held(2, 2) as (cluster, hold):
        time_of = partial(
            command_time,
            cluster.login.argv([*ON, HELLO], CHECKOUT),
            "worker here",
            4,
            env=user_environment(),
        )
        for _ in range(10):
            time_of()
        before, processes = size(hold), len(cluster.processes())
        for _ in range(runs):
            time_of()
        after = size(hold)
        left = len(cluster.processes()) - processes
    print(f"after {runs} jobs: threads, descriptors, KiB {before} -> {after}, processes {left:+}")
    bar("growth of the hold's memory, MB", (after[2] - before[2]) / 1024, 1.0)
    grown = max(after[0] - before[0], after[1] - before[1], left)
    bar("growth in threads, descriptors, processes", grown, 0)


def size(pid: int) -> tuple[int, int, int]:
    """Return the threads, the descriptors and the resident memory in KiB of a process."""
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status)
    fds = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return int(fields["Threads"]), fds, int(fields["VmRSS"].split()[0])


if __name__ == "__main__":
    main()
