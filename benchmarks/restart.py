"""From a worker's death, or a power cut, to the next round of an elastic job.

    python benchmarks/restart.py [--rounds 5] [--after 15] [--heartbeat 15] [--before CHECKOUT]

A worker exits 7 between two steps, some seconds after the first: how soon have all workers finished
the first step of the next round, torch imported and its process group made anew? dsrun is on two
virtual hosts over ssh (this needs root), torchrun on one, with as many workers, of the same Python
and torch; and dsrun has turns with --preload, and with --warm_workers, whose forks wait by then.

Then the power of a host is cut, of the first, whose store the workers meet in, and of the last: how
soon do the others' workers run in the next round? These do not import torch. A host without power
cannot be told from a slow one before the heartbeat's time is over; what is beyond it is the cost.
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
"""What each may take at most, in torchrun's time."""

MORE = {COLD: (), PRELOAD: ("--preload", "torch,torch._dynamo"), WARM: ("--warm_workers",)}
"""The options of each."""

NEW_STORE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
"""Without it torchrun's next round meets in the store of the last, finds addresses of workers that
are gone, and mostly fails (torch 2.13; https://github.com/pytorch/pytorch/issues/135712)."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="From a failure to the next round.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--after", type=float, default=15.0, help="seconds of training first")
    usual = Options().heartbeat_timeout
    parser.add_argument("--heartbeat", type=float, default=usual, help="its --heartbeat_timeout")
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
    """A worker exits 7."""

    def measure(command: list[str]) -> float:
        with started(cluster, command, WORKERS_IN_ALL) as job:
            time.sleep(after)
            return job.restart()

    commands = {PEER: torchrun()}
    for which, path in checkouts.items():
        for name, more in MORE.items():
            # A checkout from before has no --preload, and fails with it.
            if not which or name != PRELOAD:
                commands[f"{which}{name}"] = dsrun("ssh", *ONCE, *more, script=STEP, checkout=path)
    figures = take_turns({name: partial(measure, one) for name, one in commands.items()}, rounds)
    print(figures.table("exit 7 to the next round's first step", PEER))
    for name, most in BARS.items():
        ratio = figures.median(name) / figures.median(PEER)
        bar(f"{name} to {PEER}, of their medians", ratio, most)


def torchrun() -> list[str]:
    """The command for the login alone, but for the script's arguments."""
    peer = ["env", NEW_STORE, sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return [*peer, f"--nproc_per_node={WORKERS_IN_ALL}", *ONCE, STEP]


def power_cuts(
    cluster: Cluster, rounds: int, heartbeat: float, checkouts: Mapping[str, Path]
) -> None:
    """A host loses its power; it has it again for the next turn."""
    # The next round waits until nobody can be in the former one any more.
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
