"""Measure how soon one runner forms the rounds of an elastic job on many nodes.

    python benchmarks/rounds.py                  500 and 4,000 nodes of 8 workers
    python benchmarks/rounds.py 1000 2000        other numbers of nodes

`simulated.py` simulates the nodes. In every round a worker fails on the last node to get its ROUND,
so that another round is formed: EXIT of that worker and of the others on its node, CHANGE to all
other nodes, EXIT of their workers, JOIN of each node, and ROUND to all. A round lasts from that
first EXIT (the first round: from START on the first node) until the last node has its ROUND. The
work of real nodes in between, such as stopping their workers, takes no time here. Nodes and runner
share the processors, so with many nodes the runner's processor time is more meaningful. The output
shows the first round and the median of the later ones, each with the runner's processor time, and
the processor time of the whole job.
"""

from __future__ import annotations

import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import simulated
from benchmarks.measure import Unfit, bar
from dsrun.launcher.control import frames, messages, round_messages
from dsrun.launcher.specs.policies import ElasticPolicy

PORT = 29500
ROUNDS = 10
LIMIT = 2.0
"""The limits: seconds for a round of 500 nodes, and of the runner's processor time for 4,000."""

ALWAYS = ElasticPolicy(least=1, most=1 << 20, restarts=ROUNDS, window=1e-9)
"""Restarts that never wait: each has expired when the next is due."""


class Moment(NamedTuple):
    """Elapsed seconds, and those of the runner's processor time."""

    clock: float
    cpu: float


class Nodes:
    """Nodes that report when they start, and when all of them are in a round."""

    def __init__(self, count: int) -> None:
        self._count = self._waiting = count
        self._first_ranks = [0] * count

    def start(self, rank: int, _body: bytes) -> list[bytes]:
        """Answer START like a node whose agent is ready immediately."""
        if rank == 0:
            _note()
        return [simulated.beat(), _join()]

    def change(self, rank: int, _body: bytes) -> list[bytes]:
        """Answer CHANGE: all workers have stopped."""
        first = self._first_ranks[rank]
        return [*(_exit(first + local, 0) for local in range(simulated.SLOTS)), _join()]

    def round(self, rank: int, body: bytes) -> list[bytes]:
        """Answer ROUND: the last worker fails; after the last round, all exit with 0."""
        place = messages.unpack(messages.Start, body)
        self._first_ranks[rank] = place.first_rank
        if place.generation > ROUNDS:
            finished = round_messages.Finished(place.generation)
            return [messages.pack(frames.FINISHED, finished)]
        self._waiting -= 1
        if self._waiting:
            return []
        self._waiting = self._count
        _note()
        stopped = range(1, simulated.SLOTS)
        first = place.first_rank
        return [_exit(first, 7), *(_exit(first + local, 0) for local in stopped), _join()]


def _exit(rank: int, code: int) -> bytes:
    """Return the exit of a worker: on its own, with a code, or because it was stopped."""
    ended = messages.WorkerExit(rank, 4711, code, not code, time.monotonic())
    return messages.pack(frames.EXIT, ended)


def _join() -> bytes:
    return messages.pack(frames.READY, round_messages.Join(PORT, PORT))


def _stop(_rank: int, _body: bytes) -> list[bytes]:
    return [simulated.done()]


def _note() -> None:
    print(time.monotonic(), flush=True)


def measure(count: int) -> tuple[list[Moment], simulated.Used]:
    """Return the time of each round, elapsed and in the runner, and the processor time of the job.

    Raises:
        Unfit: the job ended early.
    """
    moments: list[Moment] = []

    def heard(line: str) -> None:
        moments.append(Moment(float(line), time.process_time()))

    used = simulated.run(__file__, count, heard, ALWAYS)
    if len(moments) != 1 + ROUNDS:
        raise Unfit(f"{len(moments) - 1} of {ROUNDS} rounds of {count} nodes")
    return [Moment(b.clock - a.clock, b.cpu - a.cpu) for a, b in pairwise(moments)], used


def report(count: int) -> Moment:
    """Print the times of rounds with this many nodes, and return the median of the later ones."""
    (first, *later), used = measure(count)
    middle = Moment(median(one.clock for one in later), median(one.cpu for one in later))
    figures = (*first, *middle, *used)
    print(f"{count:7,}", *(f"{figure:10.3f} s" for figure in figures))
    return middle


def main() -> None:
    """Measure each number of nodes."""
    if sys.argv[1:2] == ["--simulate"]:
        nodes = Nodes(int(sys.argv[2]))
        told = {frames.LEAVE_ROUND: nodes.change, frames.ROUND: nodes.round, frames.STOP: _stop}
        simulated.simulate(sys.argv[2:], {frames.START: nodes.start, **told})
        return
    heads = ("first", "runner's", "median", "runner's", "job: runner's", "nodes'")
    print("  nodes", *(f"{head:>12}" for head in heads))
    for count in [int(word) for word in sys.argv[1:]] or [500, 4000]:
        middle = report(count)
        if count == 500:
            bar(f"a round of {count} nodes, s", middle.clock, LIMIT)
        elif count == 4000:
            bar(f"the runner's part of a round of {count} nodes, s", middle.cpu, LIMIT)


if __name__ == "__main__":
    main()
