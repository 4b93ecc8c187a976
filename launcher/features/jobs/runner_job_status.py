"""The status of a job, sent by its runner over local control and shown by dsrun-job."""

from __future__ import annotations

from ...common.records import NamedTuple
from ...control import messages
from ...control.frames import BadFrame
from ...specs.field_types import Rank, register, register_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeAlias

    NodeState: TypeAlias = Literal["starting", "ready", "running", "waiting", "done", "lost"]
    RankState: TypeAlias = Literal["waiting", "running", "ended", "failed", "stopped"]


class NodeStatus(NamedTuple):
    """One node of a job.

    Attributes:
        host: the host's name, as the user wrote it.
        state: the node's state; `ready` is for the start, `waiting` without workers.
        reason: why the node is lost, or cannot take part; "" otherwise.
    """

    host: str
    state: NodeState
    reason: str


class RankStatus(NamedTuple):
    """One worker of a job.

    Attributes:
        rank: the rank of the worker.
        host: the host's name.
        device: the device as in the variable that masks devices, or "".
        pid: the pid on the host, 0 if the worker does not run.
        state: the worker's state; `ended` means with code 0.
        since: the time of its start, in seconds since 1970; 0 if it does not run.
        code: the exit code, or minus the number of the signal that ended it; None while it runs.
        last: the latest line of its output.
        slow: why the other ranks wait for it, with --warn_slow: quota, cpu, disk, work, network,
            behind; "" if they do not wait.
    """

    rank: Rank
    host: str
    device: str
    pid: int
    state: RankState
    since: float
    code: int | None
    last: str
    slow: str = ""


class JobStatus(NamedTuple):
    """One job.

    Attributes:
        version: the version of the runner.
        job_id: the job's id.
        pid: the pid of the runner.
        state: `starting`, `running`, `stopping` or `ending`.
        since: the time of its start, in seconds since 1970.
        program: script and arguments, as a shell reads them.
        workdir: the workers' folder.
        launcher: the name of the backend.
        elastic: whether it has rounds.
        round: the newest one, from 1 on; 0 before the first, and without rounds.
        restarts: the number of restarts after a failure.
        world_size: the number of ranks, 0 while it is not known.
        running: the number of running ranks.
        nodes: the nodes in the order of their ranks.
        ranks: all ranks, or () if not requested.
        last: the newest line of output.
        last_rank: the rank that has written it, or None.
    """

    version: str
    job_id: str
    pid: int
    state: str
    since: float
    program: str
    workdir: str
    launcher: str
    elastic: bool
    round: int
    restarts: int
    world_size: int
    running: int
    nodes: tuple[NodeStatus, ...]
    ranks: tuple[RankStatus, ...]
    last: str
    last_rank: int | None


def as_fields(status: JobStatus) -> dict[str, Any]:
    """Return a status as JSON, with each row as an object."""
    rows = {name: [row._asdict() for row in getattr(status, name)] for name in ("nodes", "ranks")}
    return {**status._asdict(), **rows}


def from_answer(answer: dict[str, Any]) -> JobStatus:
    """Return the status in an answer of a runner, which may be of another version.

    Raises:
        BadFrame: the answer has no status.
    """
    shapes: dict[str, Any] = {"nodes": NodeStatus, "ranks": RankStatus}
    try:
        fields = {name: answer[name] for name in JobStatus._fields}
        rows = {
            name: [[row[field] for field in shape._fields] for row in fields[name]]
            for name, shape in shapes.items()
        }
    except (LookupError, TypeError):
        raise BadFrame("not a job status of this version") from None
    return messages.from_fields(JobStatus, fields | rows)


register(NodeStatus, RankStatus)
register_texts("NodeState", "RankState")
