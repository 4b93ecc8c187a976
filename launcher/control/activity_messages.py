"""ACTIVITY: the activity of a node's workers, reported at intervals while they run."""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import Name, Pid, Rank, Size, register


class RankActivity(NamedTuple):
    """One worker, in a row of ACTIVITY; counts are since its start, of all its processes.

    Attributes:
        pid: the pid of the worker itself.
        state: the kernel's letter for the worker itself (proc(5)): R, S, D, T, t, Z; "" if gone.
        cpu: seconds of CPU time.
        waited: seconds that the worker's main thread was ready to run without a CPU
            (/proc/PID/schedstat).
        moved: bytes read and written by system calls (rchar and wchar of /proc/PID/io).
        printed: bytes of output that the node launcher has read.
        idle: seconds for which none of this has changed by more than idle processes change it.
        traced: whether a debugger is attached to one of its processes.
        main: seconds of CPU time of the worker's main thread.
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
    main: float = 0.0


class LinkActivity(NamedTuple):
    """The TCP connections of this user to one other machine, in a row of ACTIVITY; open ones only.

    Attributes:
        peer: the IP address of the other machine.
        sent: bytes that the other machine has acknowledged.
        busy: seconds in which bytes were in flight, summed over connections, without those in
            which the other end had no room.
        resent: segments that were sent again.
        rtt: the longest round-trip time of a connection, in seconds.
    """

    peer: Name
    sent: Size
    busy: float
    resent: Size
    rtt: float


class Activity(NamedTuple):
    """ACTIVITY: the activity of a node's workers.

    Attributes:
        clock: the node's monotonic clock in seconds.
        throttled: seconds for which the cgroup of the workers was denied CPU time by a quota, since
            the node launcher has started; 0.0 without one.
        ranks: the workers that run.
        links: the links to other machines, with `WatchPolicy.slow`.
    """

    clock: float
    throttled: float
    ranks: tuple[RankActivity, ...]
    links: tuple[LinkActivity, ...] = ()


register(RankActivity, LinkActivity)
