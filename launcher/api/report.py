"""How a job has ended."""

from __future__ import annotations

from ..common.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Failure(NamedTuple):
    """A rank that has failed by itself.

    Attributes:
        code: its exit code, None if a signal has ended it.
        signal: the name of that signal, or None.
        exit_code: the code as a shell shows it.
        after_seconds: from the start of the job.
        hint: what its node knows about the cause, in words, or "".
        stderr: the end of its standard error; `stdout` likewise.
        message: its exception, if torch's `record` kept it; `traceback` likewise.
        log: its log file, "" for none.
        evidence: what its node has found after its end, each with its kind: `disk: ...`.
    """

    rank: int
    local_rank: int
    host: str
    pid: int
    code: int | None
    signal: str | None
    exit_code: int
    after_seconds: float
    hint: str
    stderr: str
    stdout: str
    message: str
    traceback: str
    log: str
    evidence: tuple[str, ...] = ()


class Report(NamedTuple):
    """How a job has ended: what `--report_file` of the command has.

    Attributes:
        exit_code: what the command would have exited with; 0 if all ranks have.
        cause: "none", "failure", "lost", "signal", "broken pipe" or "no progress".
        failures: the ranks that have failed by themselves, the first one first.
        lost: (host, reason) of each node that was lost; host "" for why dsrun ended the job.
        text: the report in words, as the command prints it; "" if there is nothing to report.
        data: the whole report as JSON values.
    """

    job_id: str
    exit_code: int
    cause: str
    seconds: float
    world_size: int
    hosts: tuple[str, ...]
    failures: tuple[Failure, ...]
    lost: tuple[tuple[str, str], ...]
    text: str
    data: Mapping[str, Any]


def from_json(data: Mapping[str, Any], text: str) -> Report:
    """Return the report that a runner has sent.

    Raises:
        KeyError, TypeError: it is not a report.
    """
    return Report(
        job_id=data["job_id"],
        exit_code=data["exit_code"],
        cause=data["cause"],
        seconds=data["seconds"],
        world_size=data["world_size"],
        hosts=tuple(data["hosts"]),
        failures=tuple(
            Failure(**{**one, "evidence": tuple(one["evidence"])}) for one in data["failures"]
        ),
        lost=tuple((one["host"], one["reason"]) for one in data["lost"]),
        text=text,
        data=data,
    )
