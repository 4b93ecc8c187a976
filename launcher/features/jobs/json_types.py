"""The JSON types of `dsrun-job --json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from ...common.json_types import one_of
from ...control import local
from ...control.job_messages import DeviceUsage, RankUsage
from ...head.run.run_view import RunPhase
from ..detached.runner_job_folder import JobState
from ..hold.runner_json_types import HoldJson
from .command_read import Unread
from .runner_job_status import NodeStatus, RankStatus


class Used(TypedDict):
    """The resources in use on one host.

    Attributes:
        host: the host's name.
        clock: the host's monotonic clock in seconds; two answers give a CPU share.
        cores: the number of CPUs that are online.
        load: mean number of processes that run or wait for a disk, over the last 60 seconds.
        total: bytes of memory.
        used: bytes of memory that are not available to programs.
        ranks: the usage of the job's ranks there.
        devices: the use of the host's GPUs, by any process; empty if they were not or could not be
            asked.
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
    """The fields of every job.

    Attributes:
        version: the version of the job's dsrun.
        job_id: the id of the job, which is DSRUN_JOB_ID of its workers.
        pid: the pid of the job's dsrun, or of the hold that runs it.
        state: the state of the job.
        since: the time of the start, in seconds since 1970.
        program: the script and its arguments, in shell syntax.
        workdir: the folder of the workers.
        launcher: the launcher of the nodes, as for --launcher.
        elastic: whether the workers are restarted in rounds.
        round: the latest round, from 1; 0 before the first.
        restarts: the number of restarts of workers after failures.
        world_size: the number of ranks, 0 while it is unknown.
        running: the number of running ranks.
        nodes: the nodes in the order of their ranks.
        last: the latest line that any rank has printed.
        last_rank: the rank that has printed it, None without a line.
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
        ranks: all ranks of the job; only with top.
        used: the usage reports of nodes that have answered; only with top.
    """

    ranks: Sequence[RankStatus]
    used: list[Used]


class _AllJobs(TypedDict):
    """The output of list and top.

    Attributes:
        jobs: the jobs that this user has started on this machine.
    """

    jobs: list[JobJson]


class JobsJson(_AllJobs, total=False):
    """Running jobs, as list and top print them.

    Attributes:
        holds: the holds of this user on this machine; not with top.
        silent: the names of jobs and holds that do not answer; not with top.
        unread: jobs and holds with answers of another version of dsrun; not with top.
    """

    holds: Sequence[HoldJson]
    silent: Sequence[str]
    unread: Sequence[Unread]


class DoneJson(TypedDict):
    """The action of kill, signal, scale or forget.

    Attributes:
        kind: the kind of object, such as a job or a hold.
        name: the name of the object, "" for all jobs that have ended.
        done: the action, in words.
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
        line: the line without its end; bytes that are not UTF-8 are replaced.
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
    """The progress or the end of a job: the output of report and wait.

    Attributes:
        job_id: the id of the job.
        state: whether the job runs. killed: its dsrun was killed, or that machine has ended.
            unknown: it has ended, but its end could not be written. elsewhere: on a machine that
            cannot be seen from here.
        text: the report in words, as a terminal shows it; for wait "" if there is nothing to say.
        report: the report as for --report_file (report.schema.json); for a running job, the report
            so far, with None as exit_code. None if unknown.
    """

    job_id: str
    state: JobState
    text: str
    report: Mapping[str, Any] | None


class EndedJobJson(TypedDict):
    """A detached job that does not run on this machine.

    Attributes:
        job_id: its id.
        state: the state, as for report.
        exit_code: its exit code, None if unknown.
        since: the time of its start, in seconds since 1970.
        ended: the time of its end, in seconds since 1970; None if unknown.
        machine: the machine of its dsrun, or of the hold that ran it.
        program: the script and its arguments, as a shell reads them.
        workdir: the folder of its workers.
        launcher: the launcher of its nodes, as for --launcher.
        hold: the hold that ran it, or "".
        last: the newest line of output, with its rank before it.
        damage: its unreadable files, and the reasons; "" if all are readable.
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
    """A detached job with an unreadable folder.

    Attributes:
        job_id: its id.
        reason: the unreadable part, and the reason.
    """

    job_id: str
    reason: str


class EndedJson(TypedDict):
    """The output of list --ended.

    Attributes:
        ended: the jobs, the latest first.
        damaged: the jobs with unreadable folders.
    """

    ended: list[EndedJobJson]
    damaged: list[DamagedJobJson]


class RemainsHost(TypedDict):
    """One host that was reached.

    Attributes:
        host: its name.
        ended: processes that have ended, in words.
        left: processes that could not be stopped, in words.
    """

    host: str
    ended: Sequence[str]
    left: Sequence[str]


class UnreachedJson(TypedDict):
    """One host that was not reached.

    Attributes:
        host: its name.
        reason: the reason.
    """

    host: str
    reason: str


class Remains(TypedDict):
    """The result of kill with hosts.

    Attributes:
        job_id: the id of the job.
        hosts: the hosts that were reached.
        unreached: the other hosts.
    """

    job_id: str
    hosts: list[RemainsHost]
    unreached: list[UnreachedJson]
