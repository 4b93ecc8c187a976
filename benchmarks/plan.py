"""Time a whole dry run for 10,000 hosts with 8 slots each.

    python benchmarks/plan.py [--rounds 7] [--hosts 10000]

The table and the JSON are compared with the plan of one host, which is mostly the start of dsrun.
The results also include a bare Python that does nothing, and a tenth of the hosts to show the
growth.
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
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DSRUN, WORKERS, Measure, Unfit, bar, take_turns

if TYPE_CHECKING:
    from collections.abc import Callable

SLOTS = 8


def main() -> None:
    """Measure and print the times."""
    parser = argparse.ArgumentParser(description="Time a plan for many hosts.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", type=int, default=10_000)
    options = parser.parse_args()
    every = (1, options.hosts // 10, options.hosts)
    with TemporaryDirectory() as folder:
        measures: dict[str, Measure] = {"bare python": bare_python}
        for hosts in every:
            file = hostfile(Path(folder), hosts)
            measures[named("table", hosts)] = partial(dry_run, file, table, hosts)
            measures[named("JSON", hosts)] = partial(dry_run, file, in_json, hosts, "--json")
        figures = take_turns(measures, options.rounds)
    print(figures.table("dsrun --dry_run", named("table", 1)))
    for form in ("table", "JSON"):
        name, one = named(form, options.hosts), named(form, 1)
        bar(f"{name} x {SLOTS}, s", figures.median(name), 0.5)
        bar(f"{name}, ratio to one host", figures.ratio(name, one), 4.0)


def named(form: str, hosts: int) -> str:
    return f"{form}, {hosts} host{'s' if hosts > 1 else ''}"


def hostfile(folder: Path, hosts: int) -> str:
    """Write a hostfile with this many hosts, and return its path."""
    path = folder / f"hosts{hosts}"
    path.write_text("".join(f"worker-{i:05} slots={SLOTS}\n" for i in range(hosts)))
    return str(path)


def bare_python() -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", ""], check=True)
    return time.monotonic() - began


def table(output: str, workers: int) -> bool:
    """Return whether a table is for this many workers."""
    return f"workers   {workers} on " in output


def in_json(output: str, workers: int) -> bool:
    """Return whether a plan in JSON is for this many workers."""
    return bool(json.loads(output)["world_size"] == workers)


def dry_run(hostfile: str, planned: Callable[[str, int], bool], hosts: int, *words: str) -> float:
    """Run the command, and return the seconds until its end.

    Raises:
        Unfit: it failed, or the plan is not for that many workers.
    """
    argv = [*DSRUN, "-H", hostfile, "--dry_run", *words, str(WORKERS / "hello.py")]
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    taken = time.monotonic() - began
    if done.returncode or not planned(done.stdout, hosts * SLOTS):
        raise Unfit(f"{argv} ended with {done.returncode}\n{done.stderr}")
    return taken


if __name__ == "__main__":
    main()
