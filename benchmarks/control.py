"""Measure how one runner copes with many nodes: simulated node launchers on its control port.

    python benchmarks/control.py                 500, 1,000 and 2,000 nodes
    python benchmarks/control.py 4000            other numbers

The time is that from the start of the job to START on all nodes, which `simulated.py` simulates;
their workers exit immediately. The output also shows the processor time of each process.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import simulated
from dsrun.launcher.control import frames


class Nodes:
    """Nodes that finish as soon as they start, and report when the last has started."""

    def __init__(self, count: int) -> None:
        self._waiting = count

    def start(self, _rank: int, _body: bytes) -> list[bytes]:
        """Answer START."""
        self._waiting -= 1
        if not self._waiting:
            print("all", flush=True)
        return [simulated.beat(), simulated.done()]


def measure(count: int) -> tuple[float, simulated.Used]:
    """Return the seconds to START on all nodes, and the processor time of the whole job."""
    times = []
    began = time.monotonic()
    used = simulated.run(__file__, count, lambda _line: times.append(time.monotonic()))
    return times[0] - began, used


def main() -> int:
    """Measure each number of nodes, and print an estimate for 10,000."""
    if sys.argv[1:2] == ["--simulate"]:
        simulated.simulate(sys.argv[2:], {frames.START: Nodes(int(sys.argv[2])).start})
        return 0
    print("  nodes   to START per node   runner's cpu   simulation's cpu")
    for count in [int(word) for word in sys.argv[1:]] or [500, 1000, 2000]:
        seconds, used = measure(count)
        each = 1000 * seconds / count
        print(
            f"{count:7,} {seconds:8.2f} s {each:6.2f} ms {used.runner:12.2f} s {used.nodes:16.2f} s"
        )
    print(f"at this rate 10,000 nodes would take {10 * each:.0f} s to START on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
