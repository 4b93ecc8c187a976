"""Why a job has failed, in a word, and whether it makes sense to start it again. Pure."""

from __future__ import annotations

from enum import Enum

from ..common.values import NamedTuple


class FailureClass(Enum):
    """What a failure comes from.

    Attributes:
        SCRIPT: the program or how it was started: it would fail again.
        DATA: what the program reads or writes: files, checkpoints, their format, disk space.
        NODE: a machine or its devices: another one might do.
        NETWORK: connections between the ranks, or to a service.
        MEMORY: memory of the machine, of a cgroup, or of a device.
        PREEMPTED: a scheduler or a person has ended it.
        UNKNOWN: what is known does not show it, or contradicts itself.
    """

    SCRIPT = "script"
    DATA = "data"
    NODE = "node"
    NETWORK = "network"
    MEMORY = "memory"
    PREEMPTED = "preempted"
    UNKNOWN = "unknown"


class Retry(Enum):
    """Whether the same job may succeed when it is started again."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """Why a job has failed.

    Attributes:
        kind: its class.
        retry: whether the same job may succeed when it is started again.
        sentence: what has happened, "" if the output of the rank says it, or if it is not known.
        advice: what to do, or "".
    """

    kind: FailureClass = FailureClass.UNKNOWN
    retry: Retry = Retry.UNKNOWN
    sentence: str = ""
    advice: str = ""
