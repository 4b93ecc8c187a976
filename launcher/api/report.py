"""The report of a job, read from JSON for Python programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..head.report.document import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping


class Report(NamedTuple):
    """The report of a job, with the content of the command's `--report_file`.

    Attributes:
        exit_code: the exit code of the command; 0 if all ranks exited with 0.
        cause: "none", "failure", "lost", "signal", "broken pipe" or "no progress".
        failures: the ranks that failed by themselves, in the order of time.
        lost: (host, reason) of each lost node; with host "", the reason why dsrun ended the job.
        text: the report in words, as the command prints it; "" if there is nothing to report, and
            for a role.
        data: the whole report as JSON values.
        roles: for a job of several roles, the report of each that was started, by name; the fields
            above then describe the whole job, and `failures` the role that failed first.
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
    roles: Mapping[str, Report] = {}


def read(data: Mapping[str, Any], text: str) -> Report:
    """Return the report that a runner has sent.

    Raises:
        KeyError, TypeError: the data is not a report.
    """
    if "roles" in data:
        return _of_roles(data, text)
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


def _of_roles(data: Mapping[str, Any], text: str) -> Report:
    told = {name: one["report"] for name, one in data["roles"].items()}
    roles = {name: read(one, "") for name, one in told.items() if one and "world_size" in one}
    first = roles.get(data["role"] or "")
    return Report(
        job_id=data["job_id"],
        exit_code=data["exit_code"],
        cause=data["cause"],
        seconds=data["seconds"],
        world_size=sum(one.world_size for one in roles.values()),
        hosts=tuple(dict.fromkeys(host for one in roles.values() for host in one.hosts)),
        failures=first.failures if first is not None else (),
        lost=tuple(lost for one in roles.values() for lost in one.lost),
        text=text,
        data=data,
        roles=roles,
    )
