"""Measure the cost of watching a job: the hook in the workers, samples and flight recorder.

    python benchmarks/watch.py [--rounds 7] [--steps 500]

Two ranks on this machine train with DDP over gloo (this needs torch), once with everything that is
on by default, and once with all of it off. The CPU time per step is more reliable on a busy
machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measure import DSRUN, WORKERS, Figures, Unfit, bar

OFF = "--hang_timeout", "0", "--no_worker_hook"
CONTENDERS = {"watched": (), "not watched": OFF}


def main() -> None:
    """Measure and print the cost."""
    parser = argparse.ArgumentParser(description="Measure the cost of watching a job.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=500)
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for number in range(options.rounds):
        # In turns, every other round in reverse, as in `measure.take_turns`.
        for name in [*CONTENDERS][:: -1 if number % 2 else 1]:
            runs[name].append(measure(options.steps, *CONTENDERS[name]))
    for figure, unit in (("step", "ms"), ("cpu", "ms"), ("memory", "MB")):
        found = Figures({name: [one[figure] for one in runs[name]] for name in runs})
        print(found.table(figure, "not watched", unit))
        if unit == "MB":
            bar("memory per node for watching, in MB", found.excess("watched", "not watched"), 3)
        else:
            bar(
                f"{figure}, ratio to a job without watching",
                found.ratio("watched", "not watched"),
                1.01,
            )


def measure(steps: int, *options: str) -> dict[str, float]:
    """Run the job with these options, and return its figures.

    Raises:
        Unfit: it failed.
    """
    script = str(WORKERS / "watched.py")
    words = [*DSRUN, "--num_gpus", "2", "--prefix", "", *options, script, str(steps)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Unfit(ran.stderr)
    told: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return told


if __name__ == "__main__":
    main()
