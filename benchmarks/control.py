"""How one runner copes with many nodes: simulated node launchers on its control port.

    python benchmarks/control.py                 500, 1,000 and 2,000 nodes
    python benchmarks/control.py 4000            others

From the start to START on all nodes, which `simulated.py` plays; their workers end at once. The
processor time of each process is printed beside the time on the clock.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import simulated
from dsrun.launcher.control import frames


class Nodes:
    """Nodes that end as soon as they start, and tell when the last of them has started."""

    def __init__(self, count: int) -> None:
        self._waiting = count

    def start(self, _rank: int, _body: bytes) -> list[bytes]:
        """Answer START."""
        self._waiting -= 1
        if not self._waiting:
            print("all", flush=True)
        return [simulated.beat(), simulated.done()]


def measure(count: int) -> tuple[float, simulated.Used]:
    """Return seconds to START on all nodes, and the processor time of the whole."""
    times = []
    began = time.monotonic()
    used = simulated.run(__file__, count, lambda _line: times.append(time.monotonic()))
    return times[0] - began, used


def main() -> int:
    """Measure each number of nodes, and say what 10,000 would take."""
    if sys.argv[1:2] == ["--simulate"]:
        simulated.simulate(sys.argv[2:], {frames.START: Nodes(int(sys.argv[2])).start})
        return 0
    print("  nodes   to START   a node   runner's cpu   simulation's cpu")
    for count in [int(word) for word in sys.argv[1:]] or [500, 1000, 2000]:
        seconds, used = measure(count)
        each = 1000 * seconds / count
        print(
            f"{count:7,} {seconds:8.2f} s {each:6.2f} ms {used.runner:12.2f} s {used.nodes:16.2f} s"
        )
    print(f"at that rate 10,000 nodes take {10 * each:.0f} s to START on this machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
