"""Ranks as the real torch and the real py-spy gave them: two of a training, or of a server.

Each was recorded from two processes with gloo (torch 2.13, CPython 3.11), some seconds after rank 1
of a training, or rank 0 of a server, began to do what the name says. All ranks of a training have
two DataLoader workers, which hand over tensors or, as the name says, lists; with `pinned` they are
persistent. Ranks of a server named `alone` have no process group.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from dsrun.launcher.features.stacks.messages import NetworkUse, ProcessState, ThreadStack
from dsrun.launcher.features.stacks.runner_view import RankView

FILE = Path(__file__).parents[1] / "features" / "watch" / "recorded_stacks.json"


@cache
def _recorded() -> Any:
    return json.loads(FILE.read_text())


NAMES = tuple(_recorded()["scenes"])


def recorded(name: str, idle: float) -> dict[int, RankView]:
    """Return both ranks, which have done nothing for so many seconds."""
    rows = _recorded()["scenes"][name]
    return {rank: _view(rank, [row for row in rows if row[0] == rank], idle) for rank in (0, 1)}


def _view(rank: int, rows: list[Any], idle: float) -> RankView:
    stacks = _recorded()["stacks"]
    processes, threads, network = [], [], []
    for _, pid, parent, state, waits_in, awaits, others, its_threads in rows:
        processes.append(ProcessState(rank, pid, parent, "python", state, waits_in, "py-spy", ""))
        network.append(NetworkUse(rank, pid, awaits, others, 0, -1.0))
        for name, main, active, stack in its_threads:
            threads.append(ThreadStack(pid, name, main, active, tuple(stacks[stack])))
    return RankView(
        *(rank, "n0", processes[0].pid, tuple(processes), tuple(threads)),
        network=tuple(network),
        idle=idle,
    )
