"""The messages for dsrun-job: resource usage, and the end of a job's leftovers.

They are apart from `messages`, as a node launcher seldom needs them.
"""

from __future__ import annotations

from ..common.records import NamedTuple
from ..specs.field_types import Count, Pid, Rank, Signal, Size, register


class RankUsage(NamedTuple):
    """The resources that one worker and its descendants use.

    It is a row of `Usage`.

    Attributes:
        rank: the rank of the worker.
        pid: the pid of the worker.
        state: the kernel's letter for the worker itself (proc(5)): R, S, D, T, Z; "" if gone.
        cpu: seconds of CPU time since the start.
        memory: resident bytes; pages that several processes share count once for each.
        processes: the number of processes.
    """

    rank: Rank
    pid: Pid
    state: str
    cpu: float
    memory: Size
    processes: Count


class DeviceUsage(NamedTuple):
    """The use of a device, by any process.

    It is a row of `Usage`.

    Attributes:
        number: the number that the vendor's tools use (nvidia-smi).
        uuid: the id as in the variable that masks devices; "" if unknown.
        busy: percent of the recent time in which the device worked; None if unknown.
        used: bytes of device memory in use.
        total: bytes of device memory, 0 if unknown.
    """

    number: int
    uuid: str
    busy: int | None
    used: Size
    total: Size


class UsageAsk(NamedTuple):
    """Report the resource usage of this node's workers and the whole machine."""


class Usage(NamedTuple):
    """The resource usage of a node's workers and the whole machine.

    Attributes:
        clock: the node's monotonic clock in seconds; two answers give a CPU share.
        cores: CPUs that are online.
        load: mean number of processes that run or wait for a disk, over a minute.
        total: bytes of memory of the machine.
        used: bytes of these that are not available to programs.
    """

    clock: float
    cores: Count
    load: float
    total: Size
    used: Size
    ranks: tuple[RankUsage, ...]
    devices: tuple[DeviceUsage, ...]


class EndJob(NamedTuple):
    """End the leftovers of a job on this machine.

    Attributes:
        job_id: the job's id.
        number: the first signal.
        grace: seconds until SIGKILL.
    """

    job_id: str
    number: Signal
    grace: float


class EndedJob(NamedTuple):
    """The processes that have ended, and those that have not, as texts."""

    ended: tuple[str, ...]
    left: tuple[str, ...]


register(RankUsage, DeviceUsage)

USAGE = "usage", UsageAsk, Usage
END_JOB = "end_job", EndJob, EndedJob
