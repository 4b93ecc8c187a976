"""The messages that dsrun-job causes: what a node's workers use, and the end of a job's remains.

They are apart from `messages`, as a node launcher seldom needs them.
"""

from __future__ import annotations

from ..common.values import NamedTuple
from ..specs.field_types import Count, Pid, Rank, Signal, Size, register


class RankUsage(NamedTuple):
    """What one worker and its descendants use.

    It is a row of USAGE.

    Attributes:
        rank: its number.
        pid: of the worker.
        state: the kernel's letter for the worker itself (proc(5)): R, S, D, T, Z; "" if gone.
        cpu: seconds of CPU time since the start.
        memory: resident bytes; pages that several of them share count once for each.
        processes: how many they are.
    """

    rank: Rank
    pid: Pid
    state: str
    cpu: float
    memory: Size
    processes: Count


class DeviceUsage(NamedTuple):
    """How a device is used, by anybody.

    It is a row of USAGE.

    Attributes:
        number: its number, as its vendor's tools count (nvidia-smi).
        uuid: as in the variable that masks devices; "" if not known.
        busy: percent of the recent time in which it worked; None if not known.
        used: bytes of its memory in use.
        total: bytes of its memory, 0 if not known.
    """

    number: int
    uuid: str
    busy: int | None
    used: Size
    total: Size


class Usage(NamedTuple):
    """USAGE: what the workers on a node and the whole machine use.

    Attributes:
        clock: the node's monotonic clock in seconds: with it, two answers give a CPU share.
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
    """END_JOB: end what a job has left on this machine.

    Attributes:
        job_id: the job's id.
        number: the first signal.
        grace: seconds until SIGKILL.
    """

    job_id: str
    number: Signal
    grace: float


class EndedJob(NamedTuple):
    """ENDED_JOB: the processes that have ended, and those that did not, as texts."""

    ended: tuple[str, ...]
    left: tuple[str, ...]


register(RankUsage, DeviceUsage)
