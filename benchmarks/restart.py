"""Time from a worker's death, or a power cut, to the next round of an elastic job.

    python benchmarks/restart.py [--rounds 5] [--after 15] [--heartbeat 15] [--before CHECKOUT]

First, a worker exits with 7 between two steps, some seconds after the first. The time ends when all
workers have finished the first step of the next round, with torch imported and its process group
created again. dsrun uses two virtual hosts over ssh (this needs root), and torchrun one, with the
same number of workers and the same Python and torch. dsrun is also measured with --preload, and
with --warm_workers, whose forks are waiting by then.

Then the power of a host is cut: of the first, which has the store where the workers meet, and of
the last. The time ends when the workers on the other hosts run in the next round; they do not
import torch. Until the heartbeat times out, a host without power cannot be distinguished from a
slow one, so only the time after that is the cost.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.jobs import HOSTFILE, dsrun, started
from benchmarks.measure import CHECKOUT, WORKERS, Measure, bar, take_turns
from dsrun.launcher.cli.options import Options
from tests.cluster.hosts import Cluster

STEP = str(WORKERS / "step.py")
WORKERS_IN_ALL = HOSTS = 2
HOSTS_TO_CUT = 3
ONCE = ("--max_restarts", "1")
PEER = "torchrun, 1 host"
COLD, PRELOAD, WARM = "dsrun ssh, 2 hosts", "dsrun --preload", "dsrun --warm_workers"
BARS = {COLD: 1.0, PRELOAD: 0.1, WARM: 0.1}
"""The limit for each, as a share of torchrun's time."""

MORE = {COLD: (), PRELOAD: ("--preload", "torch,torch._dynamo"), WARM: ("--warm_workers",)}
"""The options of each."""

NEW_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
"""Without it torchrun's next round meets in the store of the last, finds addresses of workers that
no longer exist, and usually fails (torch 2.13; https://github.com/pytorch/pytorch/issues/135712)."""


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time from a failure to the next round.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--after", type=float, default=15.0, help="seconds of training before the failure"
    )
    usual = Options().heartbeat_timeout
    parser.add_argument(
        "--heartbeat", type=float, default=usual, help="dsrun's --heartbeat_timeout"
    )
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="another checkout of dsrun")
    options = parser.parse_args()
    checkouts = {"": CHECKOUT} | ({"before, ": options.before} if options.before else {})
    with Cluster(HOSTS, shared=checkouts.values()) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile())
        restarts(cluster, options.rounds, options.after, checkouts)
    with Cluster(HOSTS_TO_CUT, shared=checkouts.values()) as cluster:
        cluster.path(HOSTFILE).write_text(cluster.hostfile())
        power_cuts(cluster, options.rounds, options.heartbeat, checkouts)


def restarts(cluster: Cluster, rounds: int, after: float, checkouts: Mapping[str, Path]) -> None:
    """Time restarts after a worker exits with 7."""

    def measure(command: list[str]) -> float:
        with started(cluster, command, WORKERS_IN_ALL) as job:
            time.sleep(after)
            return job.restart()

    commands = {PEER: torchrun()}
    for which, path in checkouts.items():
        for name, more in MORE.items():
            # An older checkout may lack --preload, and fails with it.
            if not which or name != PRELOAD:
                commands[f"{which}{name}"] = dsrun("ssh", *ONCE, *more, script=STEP, checkout=path)
    figures = take_turns({name: partial(measure, one) for name, one in commands.items()}, rounds)
    print(figures.table("exit 7 to the next round's first step", PEER))
    for name, most in BARS.items():
        ratio = figures.median(name) / figures.median(PEER)
        bar(f"{name} to {PEER}, ratio of medians", ratio, most)


def torchrun() -> list[str]:
    """Return the command for the login host alone, without the script's arguments."""
    peer = ["env", NEW_STORE, sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*peer, f"--nproc_per_node={WORKERS_IN_ALL}", *ONCE, STEP]


def power_cuts(
    cluster: Cluster, rounds: int, heartbeat: float, checkouts: Mapping[str, Path]
) -> None:
    """Time the loss of a host's power, which is restored for the next turn."""
    # The next round waits until nobody can still be in the previous one.
    missed = 9 / 8 * heartbeat
    options = ("--elastic_training", "--heartbeat_timeout", str(heartbeat))

    def measure(name: str, checkout: Path) -> float:
        command = dsrun("ssh", *options, checkout=checkout)
        with started(cluster, command, HOSTS_TO_CUT) as job:
            began = time.monotonic()
            cluster.host(name).power_off()
            taken = job.again(HOSTS_TO_CUT - 1) - began
        cluster.host(name).power_on()
        return taken - missed

    hosts = cluster.names[0], cluster.names[-1]
    measures: dict[str, Measure] = {
        f"{which}{name}": partial(measure, name, path)
        for name in hosts
        for which, path in checkouts.items()
    }
    figures = take_turns(measures, rounds)
    print(figures.table(f"power cut to the next round, beyond {missed:g} s", hosts[0]))
    for name in hosts:
        bar(f"power cut of {name}, beyond {missed:g} s, s", figures.median(name), 1.0)


if __name__ == "__main__":
    main()
