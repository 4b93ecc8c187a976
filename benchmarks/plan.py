"""A dry run for 10,000 hosts with 8 slots each: the whole run, from the command to its end.

    python benchmarks/plan.py [--rounds 7] [--hosts 10000]

A bare Python that does nothing stands beside it; so does a tenth of the hosts, for the slope.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DSRUN, WORKERS, Measure, Unfit, bar, take_turns

SLOTS = 8


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="A plan for many hosts.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=10_000)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        measures: dict[str, Measure] = {"bare python": bare_python}
        for hosts in (options.hosts // 10, options.hosts):
            measures[f"{hosts} hosts"] = partial(dry_run, hostfile(Path(folder), hosts), hosts)
        figures = take_turns(measures, options.rounds)
    name = f"{options.hosts} hosts"
    print(figures.table("dsrun --dry_run --json", name))
    bar(f"a plan for {name} x {SLOTS}, s", figures.median(name), 0.6)


def hostfile(folder: Path, hosts: int) -> str:
    """Write a hostfile with so many hosts; returns its path."""
    path = folder / f"hosts{hosts}"
    path.write_text("".join(f"worker-{i:05} slots={SLOTS}\n" for i in range(hosts)))
    return str(path)


def bare_python() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.monotonic() - began


def dry_run(hostfile: str, hosts: int) -> float:
    """Run it; returns the seconds until its end.

    Raises:
        Unfit: it failed, or the plan is not for that many workers.
    """
    argv = [*DSRUN, "-H", hostfile, "--dry_run", "--json", str(WORKERS / "hello.py")]
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    taken = time.monotonic() - began
    if done.returncode or json.loads(done.stdout)["world_size"] != hosts * SLOTS:
        raise Unfit(f"{argv} ended with {done.returncode}\n{done.stderr}")
    return taken


if __name__ == "__main__":
    main()
