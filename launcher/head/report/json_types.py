"""The JSON types of the report of a job, for `--report_file`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias, TypedDict

from ...common.errors import INTERNAL
from ...common.json_types import ExitCode, Natural, Positive, Seconds
from ...specs import verdict
from .document import Failure

Cause: TypeAlias = Literal["none", "failure", "lost", "signal", "broken pipe", "no progress"]
SlowCause: TypeAlias = Literal["quota", "cpu", "disk", "work", "network", "behind"]


class LossJson(TypedDict):
    """A node that was lost, or an engine that ended, while the job ran.

    Attributes:
        host: name of the host; "" for an engine that all nodes depend on.
        reason: why it counts as lost, as text for the user.
    """

    host: str
    reason: str


class Binding(TypedDict):
    """The binding of a worker, as its kernel reports it (--report_bindings).

    Attributes:
        host: name of its host.
        accelerator: kind of the devices on that host, such as cuda or cpu.
        rank: rank of the worker in the job.
        pid: its process id on that host.
        device: its device, as in the variable that masks devices, or "".
        address: PCI address of the device; "" if unknown.
        node: NUMA node of the device; None if unknown.
        cpus: the cpus it may run on, such as 0-3,8.
        memory: the NUMA nodes that it may use, such as 0-1, after its memory policy if it has one,
            such as bind:0; "" if unknown.
        nic: the network card nearest to the device, or "".
    """

    host: str
    accelerator: str
    rank: Natural
    pid: Positive
    device: str
    address: str
    node: Natural | None
    cpus: str
    memory: str
    nic: str


class HangJson(TypedDict):
    """A time without progress that exceeded --hang_timeout.

    Attributes:
        after_seconds: seconds from the start of the job until it was found.
        sentence: the place of the odd rank, and the ranks that wait for it.
        ranks: the odd ranks; empty if none is.
        hosts: the hosts of these ranks, in the same order, or those that did not answer.
        seconds: seconds for which the job had hung when it was found.
        lasted: seconds for which it hung until it continued; None if it did not.
    """

    after_seconds: Seconds
    sentence: str
    ranks: Sequence[Natural]
    hosts: Sequence[str]
    seconds: Seconds
    lasted: Seconds | None


class SlowJson(TypedDict):
    """A rank, a host or a link that the others waited for.

    Attributes:
        after_seconds: the time of detection, in seconds since the start of the job.
        sentence: the slow object, and the cause.
        cause: why: a CPU quota, other threads on its CPUs, a disk, its share of the work, the
            network; behind: it falls behind, and the others do not wait.
        ranks: the slow ranks; empty for a link.
        hosts: the hosts of the ranks, or the ends of the link.
        seconds: the duration of the slowness; None if it lasted to the end.
    """

    after_seconds: Seconds
    sentence: str
    cause: SlowCause
    ranks: Sequence[Natural]
    hosts: Sequence[str]
    seconds: Seconds | None


_Class = TypedDict("_Class", {"class": verdict.FailureClass})


class VerdictJson(_Class):
    """The reason for the failure of the job, as far as known.

    Attributes:
        class: the class of the failure.
        retry: whether the same job may succeed when it is started again.
        sentence: the failure in words; "" if unknown.
        advice: a remedy, or "".
    """

    retry: verdict.Retry
    sentence: str
    advice: str


class Python(TypedDict):
    """The Python that the workers of a node run on.

    Attributes:
        host: name of the host.
        path: its path there.
        origin: its origin: --python, --venv_script, VIRTUAL_ENV, CONDA_PREFIX, .venv, or
            dsrun for the one that dsrun runs on.
    """

    host: str
    path: str
    origin: str


class StartedJobJson(TypedDict):
    """A job that was started.

    Its report has fields of `REPORT_SECTIONS` besides (`head/doors`).

    Attributes:
        job_id: id of the job.
        exit_code: exit code of dsrun.
        seconds: duration of the job in seconds.
        world_size: number of workers; in an elastic job, of the last round.
        hosts: names of the hosts, in the order of node ranks.
        pythons: the workers' Python on each node that took part; empty for --no_python.
        cause: the reason for the end: nothing (none), a failed worker, a lost node, a signal to
            dsrun, a closed standard output, or a hang or a broken rule (no progress).
        first_failure: the failure that came first in time; None if no worker failed.
        failures: all workers that failed by themselves, in the order of time.
        lost: the nodes that were lost, in the order in which this was noticed; without a host, why
            dsrun ended the job.
        stopped: number of workers that were told to stop.
        signal: number of the signal that stopped dsrun, or None.
        left: processes that could not be stopped, as text for the user.
        unseen: processes that may still run on lost nodes, as text for the user.
        verdict: the reason for the failure; None if exit_code is 0.
    """

    job_id: str
    exit_code: ExitCode
    seconds: Seconds
    world_size: Natural
    hosts: Sequence[str]
    pythons: list[Python]
    cause: Cause
    first_failure: Failure | None
    failures: list[Failure]
    lost: list[LossJson]
    stopped: Natural
    signal: Positive | None
    left: Sequence[str]
    unseen: Sequence[str]
    verdict: VerdictJson | None


class Refused(TypedDict):
    """A job that could not be started.

    Attributes:
        job_id: id of the job.
        exit_code: exit code of dsrun.
        error: the error message; it may have several lines.
    """

    job_id: str
    exit_code: Annotated[int, ("minimum", 1), ("maximum", 255)]
    error: str


class Crashed(TypedDict):
    """A job that ended because of a bug in dsrun.

    Attributes:
        job_id: id of the job.
        exit_code: exit code of dsrun: 70.
        cause: always "internal error".
        error: type and message of the exception.
    """

    job_id: str
    exit_code: Annotated[int, ("const", INTERNAL)]
    cause: Literal["internal error"]
    error: str
