"""The types of what `dsrun-job --json` prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from ...common.json_types import one_of
from ...control import local
from ...control.job_messages import DeviceUsage, RankUsage
from ...control.job_status import NodeStatus, RankStatus
from ...head.detached.job_folder import JobState
from ...head.hold.json_types import HoldJson
from ...head.run.run_view import RunPhase
from ..job_read import Unread


class Used(TypedDict):
    """What is used on one host.

    Attributes:
        host: its name.
        clock: its monotonic clock in seconds: with it, two answers give a CPU share.
        cores: its CPUs that are online.
        load: mean number of processes that run or wait for a disk, over the last 60 seconds.
        total: bytes of its memory.
        used: bytes of these that are not available to programs.
        ranks: what the job's ranks there use.
        devices: how its GPUs are used, by anybody; empty if they were not or could not be asked.
    """

    host: str
    clock: float
    cores: int
    load: float
    total: int
    used: int
    ranks: Sequence[RankUsage]
    devices: Sequence[DeviceUsage]


class _ListedJob(TypedDict):
    """What is told of every job.

    Attributes:
        version: the version of its dsrun.
        job_id: its id, which is DSRUN_JOB_ID of its workers.
        pid: the pid of its dsrun, or of the hold that runs it.
        state: what it does.
        since: when it was started, in seconds since 1970.
        program: the script and its arguments, as a shell reads them.
        workdir: the folder of its workers.
        launcher: how its nodes were started, as for --launcher.
        elastic: whether its workers are restarted in rounds.
        round: the newest round, from 1 on; 0 if there are none.
        restarts: how often workers were restarted after a failure.
        world_size: the number of ranks, 0 while it is not known.
        running: how many ranks run.
        nodes: its nodes in the order of their ranks.
        last: the newest line that any rank has printed.
        last_rank: the rank that has printed it, None for none.
    """

    version: str
    job_id: str
    pid: int
    state: Annotated[str, one_of(one.name.lower() for one in RunPhase)]
    since: float
    program: str
    workdir: str
    launcher: str
    elastic: bool
    round: int
    restarts: int
    world_size: int
    running: int
    nodes: Sequence[NodeStatus]
    last: str
    last_rank: int | None


class JobJson(_ListedJob, total=False):
    """One job.

    Attributes:
        ranks: all its ranks; only with top.
        used: what its nodes report, as far as they have answered; only with top.
    """

    ranks: Sequence[RankStatus]
    used: list[Used]


class _AllJobs(TypedDict):
    """What list and top print.

    Attributes:
        jobs: the jobs that this user has started on this machine.
    """

    jobs: list[JobJson]


class JobsJson(_AllJobs, total=False):
    """Running jobs, as list and top print them.

    Attributes:
        holds: the holds of this user on this machine; not with top.
        silent: the names of jobs and holds that do not answer; not with top.
        unread: jobs and holds whose answer is that of another version of dsrun; not with top.
    """

    holds: Sequence[HoldJson]
    silent: Sequence[str]
    unread: Sequence[Unread]


class DoneJson(TypedDict):
    """What kill, signal, scale or forget has done.

    Attributes:
        kind: what it was done to.
        name: its name, "" for all that have ended.
        done: what was done, in words.
    """

    kind: Annotated[str, one_of((local.JOB, local.HOLD))]
    name: str
    done: str


class LineJson(TypedDict):
    """One line of logs.

    Attributes:
        role: the role of the rank, "" for a job of one program.
        host: the host of the rank.
        rank: the rank that has printed it.
        stream: 1 for standard output, 2 for standard error.
        line: the line without its end; what is not UTF-8 is replaced.
    """

    role: str
    host: str
    rank: int
    stream: Annotated[int, one_of((1, 2))]
    line: str


class MessageJson(TypedDict):
    """A message of dsrun itself in the output of a detached job, as logs prints it.

    Attributes:
        message: its text.
    """

    message: str


class ReportJson(TypedDict):
    """How a job does, or has ended: what report and wait print.

    Attributes:
        job_id: its id.
        state: whether it runs. killed: its dsrun was killed, or that machine has ended. unknown: it
            has ended, but how could not be written. elsewhere: on a machine that cannot be seen
            from here.
        text: the report in words, as a terminal shows it; of wait "" if there is nothing to say.
        report: as --report_file has it (report.schema.json); of a running job what is known so far,
            with None as exit_code. None if nobody knows.
    """

    job_id: str
    state: JobState
    text: str
    report: Mapping[str, Any] | None


class EndedJobJson(TypedDict):
    """A detached job that does not run on this machine.

    Attributes:
        job_id: its id.
        state: as for report.
        exit_code: its exit code, None if that is not known.
        since: when it was started, in seconds since 1970.
        ended: when it has ended, in seconds since 1970; None if that is not known.
        machine: where its dsrun, or the hold that ran it, was.
        program: the script and its arguments, as a shell reads them.
        workdir: the folder of its workers.
        launcher: how its nodes were started, as for --launcher.
        hold: the hold that has run it, "" for none.
        last: the newest line of output, with its rank before it.
        damage: which of its files cannot be read, and why; "" if all can be.
    """

    job_id: str
    state: JobState
    exit_code: int | None
    since: float
    ended: float | None
    machine: str
    program: str
    workdir: str
    launcher: str
    hold: str
    last: str
    damage: str


class DamagedJobJson(TypedDict):
    """A detached job of which nothing can be read.

    Attributes:
        job_id: its id.
        reason: what cannot be read, and why.
    """

    job_id: str
    reason: str


class EndedJson(TypedDict):
    """What list --ended prints.

    Attributes:
        ended: the jobs, the newest first.
        damaged: those of which nothing can be read.
    """

    ended: list[EndedJobJson]
    damaged: list[DamagedJobJson]


class RemainsHost(TypedDict):
    """One host that was reached.

    Attributes:
        host: its name.
        ended: the processes that have ended, in words.
        left: those that could not be stopped, in words.
    """

    host: str
    ended: Sequence[str]
    left: Sequence[str]


class UnreachedJson(TypedDict):
    """One host that was not reached.

    Attributes:
        host: its name.
        reason: why.
    """

    host: str
    reason: str


class Remains(TypedDict):
    """What kill with hosts has found.

    Attributes:
        job_id: the id of the job.
        hosts: the hosts that were reached.
        unreached: the others.
    """

    job_id: str
    hosts: list[RemainsHost]
    unreached: list[UnreachedJson]
