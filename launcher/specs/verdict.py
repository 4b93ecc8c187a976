"""The reason for a job's failure, in a word, and whether a new start makes sense. Pure."""

from __future__ import annotations

from enum import Enum

from ..common.records import NamedTuple
from ..common.text import plain


class FailureClass(Enum):
    """The origin of a failure.

    Attributes:
        SCRIPT: the program or its start: it would fail again.
        DATA: input or output of the program: files, checkpoints, their format, disk space.
        NODE: a machine or its devices: another machine might do.
        NETWORK: connections between the ranks, or to a service.
        MEMORY: memory of the machine, of a cgroup, or of a device.
        PREEMPTED: a scheduler or a person has ended the job.
        UNKNOWN: unknown, or the evidence is contradictory.
    """

    SCRIPT = "script"
    DATA = "data"
    NODE = "node"
    NETWORK = "network"
    MEMORY = "memory"
    PREEMPTED = "preempted"
    UNKNOWN = "unknown"


class Retry(Enum):
    """The prospects of starting this job again."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """The reason for the failure of a job.

    Attributes:
        kind: the class of the failure.
        retry: whether the job may succeed when it is started again.
        sentence: the explanation, "" if the rank's output has it, or if unknown.
        advice: the remedy, or "".
    """

    kind: FailureClass = FailureClass.UNKNOWN
    retry: Retry = Retry.UNKNOWN
    sentence: str = ""
    advice: str = ""


class Explanation(NamedTuple):
    """A verdict, and whether its sentence says more than the program's own words."""

    verdict: Verdict = Verdict()
    says_more: bool = False

    @property
    def lines(self) -> list[str]:
        """The verdict as lines for a person, below the program's own output."""
        sentence = [f"why: {self.verdict.sentence}"] if self.says_more else []
        advice = [f"try: {self.verdict.advice}"] if self.verdict.advice else []
        return [plain(text) for text in (*sentence, *advice)]
