"""Limits on the stacks in a node's answer. Pure."""

from __future__ import annotations

import json

from ...common.records import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .messages import StacksAnswer, ThreadStack

LARGEST = 900_000
"""Bytes of an answer, at most."""


class Limits(NamedTuple):
    """Most frames of a thread, and most threads of a process."""

    frames: int
    threads: int


STEPS = (Limits(150, 300), Limits(80, 60), Limits(40, 20), Limits(20, 6), Limits(10, 1))
"""The limits, in order: the first that makes an answer small enough is used, else the last."""


def fitting(stacks: StacksAnswer) -> StacksAnswer:
    """Return stacks small enough to be sent; omissions are marked."""
    for limits in STEPS:
        cut = _cut(stacks, limits)
        if len(json.dumps(cut)) <= LARGEST:
            return cut
    workers = {row.rank: row.pid for row in reversed(cut.processes)}  # these come first
    return cut._replace(
        processes=tuple(row for row in cut.processes if row.pid == workers[row.rank]),
        threads=tuple(one for one in cut.threads if one.pid in workers.values()),
        network=tuple(one for one in cut.network if one.pid in workers.values()),
    )


def _cut(stacks: StacksAnswer, limits: Limits) -> StacksAnswer:
    by_pid: dict[int, list[ThreadStack]] = {}
    for one in sorted(stacks.threads, key=lambda one: not one.main):
        by_pid.setdefault(one.pid, []).append(_shortened(one, limits.frames))
    left_out = {pid: len(rows) - limits.threads for pid, rows in by_pid.items()}
    return stacks._replace(
        processes=tuple(
            row._replace(problem=f"{left_out[row.pid]} more threads omitted")
            if left_out.get(row.pid, 0) > 0
            else row
            for row in stacks.processes
        ),
        threads=tuple(one for rows in by_pid.values() for one in rows[: limits.threads]),
    )


def _shortened(thread: ThreadStack, most: int) -> ThreadStack:
    """Leave out frames in the middle: the innermost and the outermost ones matter."""
    surplus = len(thread.frames) - most
    if surplus <= 0:
        return thread
    ends = most // 4
    marker = f"... ({surplus} frames omitted)"
    return thread._replace(
        frames=(*thread.frames[: most - ends], marker, *thread.frames[len(thread.frames) - ends :])
    )
