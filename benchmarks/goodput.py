"""Measure the goodput of a training whose workers are killed repeatedly: dsrun and torchrun.

    python benchmarks/goodput.py [--seconds 150] [--every 30] [--seed 1] [--before CHECKOUT]

The job runs on two virtual hosts with one worker each (this needs root), with torch and gloo, and
with the same script and Python for all. At a fixed interval SIGKILL kills one rank, chosen by the
seed; the workers of the next round continue from the last step. Goodput is the number of steps,
times the seconds that a step takes without failures, divided by the seconds from the first step to
the last: 1.00 if failures cost nothing. Every restart imports torch, which takes each worker a few
seconds of processor time.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import HOSTFILE, dsrun
from benchmarks.measure import CHECKOUT, WORKERS, tell
from benchmarks.restart import NEW_STORE
from tests.cluster.hosts import Cluster
from tests.cluster.machines import Machine, user_environment
from tests.support.limits import wait_for

SCRIPT = str(WORKERS / "goodput.py")
FOLDER = "/run/job"
PAUSE = "0.05"
HOSTS = 2
MANY = "1000"
"""The limit of restarts, more than will happen."""

Start = Callable[[Cluster], list["subprocess.Popen[bytes]"]]


def main() -> None:
    """Measure and print the goodput."""
    parser = argparse.ArgumentParser(description="Measure the goodput of a training with failures.")
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--every", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    starts: dict[str, Start] = {
        "dsrun": ours(),
        "dsrun --warm_workers": ours("--warm_workers"),
        "torchrun": torchrun,
    }
    if options.before:
        starts["before"] = ours(checkout=options.before)
    shared = [CHECKOUT, *filter(None, [options.before])]
    for name, start in starts.items():
        with Cluster(HOSTS, shared=shared) as cluster:
            cluster.path(HOSTFILE).write_text(cluster.hostfile())
            with started(cluster, start) as folder:
                steps = train(folder, options.seconds, options.every, random.Random(options.seed))
        print(f"{name:24} {goodput(steps):5.2f} of 1.00, {len(steps)} steps", flush=True)


def ours(*options: str, checkout: Path = CHECKOUT) -> Start:
    """Return dsrun's commands: one for all hosts."""
    command = dsrun("ssh", "--max_restarts", MANY, *options, script=SCRIPT, checkout=checkout)
    return lambda cluster: [begun(cluster.login, command)]


def torchrun(cluster: Cluster) -> list[subprocess.Popen[bytes]]:
    """Return torchrun's commands: the same one on every host."""
    meet = ["--rdzv_backend", "c10d", "--rdzv_endpoint", f"{cluster.names[0]}:29400"]
    peer = ["env", NEW_STORE, sys.executable, "-m", "torch.distributed.run", *meet]
    command = [*peer, "--nnodes", str(HOSTS), "--nproc_per_node", "1", "--max_restarts", MANY]
    return [begun(cluster.host(name), [*command, SCRIPT]) for name in cluster.names]


def begun(machine: Machine, command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a command on a machine, and ignore its output."""
    argv = machine.argv([*command, FOLDER, PAUSE], CHECKOUT)
    nowhere = subprocess.DEVNULL
    return subprocess.Popen(argv, env=user_environment(), stdout=nowhere, stderr=nowhere)


@contextmanager
def started(cluster: Cluster, start: Start) -> Iterator[Path]:
    """Start the training and yield its folder; stop all its processes after the `with` block."""
    folder = cluster.path(FOLDER)
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    before = {process.pid for process in cluster.processes()}
    commands = start(cluster)
    try:
        wait_for((folder / "steps").exists, "the first step", seconds=120)
        yield folder
    finally:
        for process in cluster.processes():
            if process.pid not in before:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        for command in commands:
            command.wait()


def train(folder: Path, seconds: float, every: float, chance: random.Random) -> list[float]:
    """Let it train, kill a rank at each interval, and return the times of the steps."""
    end = time.monotonic() + seconds
    while time.monotonic() + every < end:
        time.sleep(every)
        rank = chance.randrange(HOSTS)
        tell(f"killing rank {rank}")
        (folder / f"kill-{rank}").touch()
    time.sleep(max(0.0, end - time.monotonic()))
    return [float(line.split()[1]) for line in (folder / "steps").read_text().splitlines()]


def goodput(moments: Sequence[float]) -> float:
    """Return the share of the time spent on steps."""
    step = median(after - before for before, after in pairwise(moments))
    return step * (len(moments) - 1) / (moments[-1] - moments[0])


if __name__ == "__main__":
    main()
