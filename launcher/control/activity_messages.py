"""ACTIVITY: what the workers of a node do, reported at regular times while they run."""

from __future__ import annotations

from ..common.values import NamedTuple
from .field_types import Pid, Rank, Size
from .messages import allow_rows


class RankActivity(NamedTuple):
    """One worker, in a row of ACTIVITY; counts are since its start, of all its processes.

    Attributes:
        pid: of the worker itself.
        state: the kernel's letter for the worker itself (proc(5)): R, S, D, T, t, Z; "" if gone.
        cpu: seconds of CPU time.
        waited: seconds that the worker's main thread was ready to run without a CPU
            (/proc/PID/schedstat).
        moved: bytes read and written by system calls (rchar and wchar of /proc/PID/io).
        printed: bytes of output that the node launcher has read.
        idle: seconds for which none of this has changed by more than idle processes change it.
        traced: whether a debugger is attached to one of its processes.
    """

    rank: Rank
    pid: Pid
    state: str
    cpu: float
    waited: float
    moved: Size
    printed: Size
    idle: float
    traced: bool


class Activity(NamedTuple):
    """ACTIVITY: what the workers of a node do.

    Attributes:
        clock: the node's monotonic clock in seconds.
        throttled: seconds for which the cgroup of the workers was denied CPU time by a quota, since
            the node launcher has started; 0.0 without one.
        ranks: the workers that run.
    """

    clock: float
    throttled: float
    ranks: tuple[RankActivity, ...]


def restored(activity: Activity) -> Activity:
    """Return a message that was received, with its rows as values."""
    return activity._replace(ranks=tuple(RankActivity(*row) for row in activity.ranks))


allow_rows(RankActivity)
