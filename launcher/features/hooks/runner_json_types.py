"""The types of the events that the command of `--on_event` gets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from ...common.json_types import one_of
from ...specs.policies import ALERT_ACTIONS

ALARMS = ("hang", "rule", "slow")


class EventOrigin(TypedDict):
    """The job of an event.

    Attributes:
        job_id: the job's id.
        seconds: seconds since the job began.
    """

    job_id: str
    seconds: float


class _EveryEvent(EventOrigin):
    """The fields of every event.

    Attributes:
        time: the time of the event, in seconds since 1970.
        left_out: the number of events before this one that were left out, as too many waited.
    """

    time: float
    left_out: int


class EveryEvent(_EveryEvent, total=False):
    """The fields of every event, and the field of events of one role, in a job of several.

    Attributes:
        role: the name of the role whose ranks and hosts the event has.
    """

    role: str


class StartJson(TypedDict):
    """All nodes were ready, and their workers are being started.

    Attributes:
        event: the kind of event.
        hosts: the names of the nodes in rank order.
        world_size: the number of ranks.
        master_addr: MASTER_ADDR of the workers.
        master_port: MASTER_PORT of the workers.
    """

    event: Literal["start"]
    hosts: Sequence[str]
    world_size: int
    master_addr: str
    master_port: int


class FailureJson(TypedDict):
    """A rank has failed on its own.

    Attributes:
        event: the kind of event.
        rank: the rank.
        host: the host's name.
        pid: the pid on the host.
        exit_code: the exit code; 128 + N for signal N.
        hint: the likely cause as the node sees it; "" if unknown.
    """

    event: Literal["failure"]
    rank: int
    host: str
    pid: int
    exit_code: int
    hint: str


class RestartJson(TypedDict):
    """The workers of an elastic job are started again.

    Attributes:
        event: the kind of event.
        round: the round, from 2 on.
        restarts: the number of restarts after failures.
        hosts: the names of the nodes in rank order.
        world_size: the number of ranks.
    """

    event: Literal["restart"]
    round: int
    restarts: int
    hosts: Sequence[str]
    world_size: int


class LostJson(TypedDict):
    """A node is gone.

    Attributes:
        event: the kind of event.
        host: the host's name.
        reason: why it is lost.
        goes_on: whether the job continues without it.
    """

    event: Literal["lost"]
    host: str
    reason: str
    goes_on: bool


class AlarmJson(TypedDict):
    """A watch has found something wrong: a hang, or a broken rule on the output.

    Attributes:
        event: the kind of finding.
        sentence: the finding, for people.
        then: the reaction.
    """

    event: Annotated[str, one_of(ALARMS)]
    sentence: str
    then: Annotated[str, one_of(ALERT_ACTIONS)]


class OverJson(TypedDict):
    """The end of an alarm, for example because the job continues after a hang.

    Attributes:
        event: the kind of event.
        kind: the event of the finding.
        sentence: a description of the change, for people.
    """

    event: Literal["over"]
    kind: Annotated[str, one_of(ALARMS)]
    sentence: str


class EndJson(TypedDict):
    """The job has ended, or could not be started.

    Attributes:
        event: the kind of event.
        exit_code: the exit code of dsrun, as far as already determined.
        error: why the job could not be started; "" if it was.
        report: the report, as report.schema.json describes it; None if the job could not be
            started.
    """

    event: Literal["end"]
    exit_code: int
    error: str
    report: Mapping[str, Any] | None


Event: TypeAlias = StartJson | FailureJson | RestartJson | LostJson | AlarmJson | OverJson | EndJson
